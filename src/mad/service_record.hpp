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

/// SA ServiceRecord (IBTA vol 1, 15.2.5.14), 176 bytes on the wire: a service that a port said it
/// offers. Values in host byte order.
struct ServiceRecord {
  static constexpr std::size_t kSize = 176;
  static constexpr std::size_t kNameSize = 64;
  static constexpr std::size_t kDataSize = 64;

  ServiceId service_id;
  Gid service_gid;
  PKey pkey;
  /// Seconds; all ones: without end.
  std::uint32_t lease = 0;
  std::array<std::uint8_t, 16> key{};
  /// Text without a promised NUL at its end: see name_text().
  std::array<char, kNameSize> name{};
  /// ServiceData8, 16, 32 and 64 as they are on the wire: what they mean is the service's.
  std::array<std::uint8_t, kDataSize> data{};

  /// The name up to its first NUL.
  [[nodiscard]] std::string_view name_text() const noexcept;
  friend constexpr bool operator==(const ServiceRecord&, const ServiceRecord&) noexcept = default;
};

/// Reads a record. Fails with Errc::Malformed unless there are exactly ServiceRecord::kSize bytes.
[[nodiscard]] Result<ServiceRecord> parse_service_record(
    std::span<const std::uint8_t> bytes) noexcept;

/// Writes a record, reserved bits as zero.
void serialize(const ServiceRecord& record,
               std::span<std::uint8_t, ServiceRecord::kSize> to) noexcept;

/// Bits of the SA component mask of a ServiceRecord request.
namespace service_mask {
inline constexpr std::uint64_t kServiceId = 1ULL << 0U;
inline constexpr std::uint64_t kServiceGid = 1ULL << 1U;
inline constexpr std::uint64_t kPKey = 1ULL << 2U;
inline constexpr std::uint64_t kLease = 1ULL << 4U;
inline constexpr std::uint64_t kKey = 1ULL << 5U;
inline constexpr std::uint64_t kName = 1ULL << 6U;
}  // namespace service_mask

}  // namespace wireup::mad
