// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "mad/path_record.hpp"

namespace wireup::mad {

/// JoinState bits of a MCMemberRecord.
inline constexpr std::uint8_t kJoinFullMember = 1;

/// SA MCMemberRecord (IBTA vol 1, 15.2.5.17), 52 bytes on the wire.
struct McMemberRecord {
  static constexpr std::size_t kSize = 52;

  Gid mgid;
  Gid port_gid;
  QKey qkey;
  Lid mlid;
  Selector mtu_selector = Selector::GreaterThan;
  std::uint8_t mtu = 0;
  std::uint8_t traffic_class = 0;
  PKey pkey;
  Selector rate_selector = Selector::GreaterThan;
  std::uint8_t rate = 0;
  Selector packet_lifetime_selector = Selector::GreaterThan;
  std::uint8_t packet_lifetime = 0;
  Sl sl;
  FlowLabel flow_label;
  std::uint8_t hop_limit = 0;
  /// 4 bits: 2 link-local, 5 site-local, ...
  std::uint8_t scope = 0;
  /// 4 bits: kJoinFullMember, ...
  std::uint8_t join_state = 0;
  bool proxy_join = false;
  friend constexpr bool operator==(const McMemberRecord&, const McMemberRecord&) noexcept = default;
};

/// Reads a record. Fails with Errc::Malformed when there are not exactly McMemberRecord::kSize
/// bytes.
[[nodiscard]] Result<McMemberRecord> parse_mc_member_record(
    std::span<const std::uint8_t> bytes) noexcept;

/// Writes a record, reserved bits as zero. A value wider than its field is a defect.
void serialize(const McMemberRecord& record,
               std::span<std::uint8_t, McMemberRecord::kSize> to) noexcept;

/// Bits of the SA component mask of an MCMemberRecord request.
namespace mc_member_mask {
inline constexpr std::uint64_t kMgid = 1ULL << 0U;
inline constexpr std::uint64_t kPortGid = 1ULL << 1U;
inline constexpr std::uint64_t kQKey = 1ULL << 2U;
inline constexpr std::uint64_t kMlid = 1ULL << 3U;
inline constexpr std::uint64_t kMtuSelector = 1ULL << 4U;
inline constexpr std::uint64_t kMtu = 1ULL << 5U;
inline constexpr std::uint64_t kTrafficClass = 1ULL << 6U;
inline constexpr std::uint64_t kPKey = 1ULL << 7U;
inline constexpr std::uint64_t kRateSelector = 1ULL << 8U;
inline constexpr std::uint64_t kRate = 1ULL << 9U;
inline constexpr std::uint64_t kPacketLifetimeSelector = 1ULL << 10U;
inline constexpr std::uint64_t kPacketLifetime = 1ULL << 11U;
inline constexpr std::uint64_t kSl = 1ULL << 12U;
inline constexpr std::uint64_t kFlowLabel = 1ULL << 13U;
inline constexpr std::uint64_t kHopLimit = 1ULL << 14U;
inline constexpr std::uint64_t kScope = 1ULL << 15U;
inline constexpr std::uint64_t kJoinState = 1ULL << 16U;
inline constexpr std::uint64_t kProxyJoin = 1ULL << 17U;
}  // namespace mc_member_mask

}  // namespace wireup::mad
