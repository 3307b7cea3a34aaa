// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace wireup::mad {

/// NodeType of a NodeInfo (IBTA vol 1, 14.2.5.3); other numbers are possible.
inline constexpr std::uint8_t kNodeChannelAdapter = 1;
inline constexpr std::uint8_t kNodeSwitch = 2;
inline constexpr std::uint8_t kNodeRouter = 3;

/// SA NodeRecord (IBTA vol 1, 15.2.5.2), 108 bytes on the wire: a port's LID, the NodeInfo of the
/// node as seen through that port, and the node's description. Values in host byte order.
struct NodeRecord {
  static constexpr std::size_t kSize = 108;
  static constexpr std::size_t kDescriptionSize = 64;

  Lid lid;
  std::uint8_t base_version = 0;
  std::uint8_t class_version = 0;
  std::uint8_t node_type = 0;
  std::uint8_t port_count = 0;
  Guid system_image_guid;
  Guid node_guid;
  Guid port_guid;
  std::uint16_t partition_capacity = 0;
  std::uint16_t device_id = 0;
  std::uint32_t revision = 0;
  std::uint8_t local_port = 0;
  /// 24 bits.
  std::uint32_t vendor_id = 0;
  /// Text without a promised NUL at its end: see description_text().
  std::array<char, kDescriptionSize> description{};

  /// The description up to its first NUL.
  [[nodiscard]] std::string_view description_text() const noexcept;
  friend constexpr bool operator==(const NodeRecord&, const NodeRecord&) noexcept = default;
};

/// Reads a record. Fails with Errc::Malformed unless there are exactly NodeRecord::kSize bytes.
[[nodiscard]] Result<NodeRecord> parse_node_record(std::span<const std::uint8_t> bytes) noexcept;

/// Writes a record, reserved bits as zero. A value wider than its field is a defect.
void serialize(const NodeRecord& record, std::span<std::uint8_t, NodeRecord::kSize> to) noexcept;

/// Bits of the SA component mask of a NodeRecord request.
namespace node_mask {
inline constexpr std::uint64_t kLid = 1ULL << 0U;
inline constexpr std::uint64_t kNodeType = 1ULL << 4U;
inline constexpr std::uint64_t kPortCount = 1ULL << 5U;
inline constexpr std::uint64_t kSystemImageGuid = 1ULL << 6U;
inline constexpr std::uint64_t kNodeGuid = 1ULL << 7U;
inline constexpr std::uint64_t kPortGuid = 1ULL << 8U;
inline constexpr std::uint64_t kDeviceId = 1ULL << 10U;
inline constexpr std::uint64_t kLocalPort = 1ULL << 12U;
inline constexpr std::uint64_t kVendorId = 1ULL << 13U;
inline constexpr std::uint64_t kDescription = 1ULL << 14U;
}  // namespace node_mask

}  // namespace wireup::mad
