// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace wireup::mad {

/// How the SA is to read, or has answered, an MTU, rate or lifetime.
enum class Selector : std::uint8_t { GreaterThan = 0, LessThan = 1, Exactly = 2, Largest = 3 };

/// SA PathRecord (IBTA vol 1, 15.2.5.16), 64 bytes on the wire: one direction, from `sgid`/`slid`
/// to `dgid`/`dlid`. Values are in host byte order; reserved bits are not kept.
struct PathRecord {
  static constexpr std::size_t kSize = 64;

  ServiceId service_id;
  Gid dgid;
  Gid sgid;
  Lid dlid;
  Lid slid;
  bool raw_traffic = false;
  FlowLabel flow_label;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  bool reversible = false;
  /// Number of paths asked for, 7 bits.
  std::uint8_t numb_path = 0;
  PKey pkey;
  /// 12 bits.
  std::uint16_t qos_class = 0;
  Sl sl;
  Selector mtu_selector = Selector::GreaterThan;
  /// MTU code, 6 bits: 1 = 256 bytes to 5 = 4096 (mad/rate.hpp).
  std::uint8_t mtu = 0;
  Selector rate_selector = Selector::GreaterThan;
  /// Rate code, 6 bits (mad/rate.hpp).
  std::uint8_t rate = 0;
  Selector packet_lifetime_selector = Selector::GreaterThan;
  /// Exponent of 4.096 us, 6 bits on the wire.
  std::uint8_t packet_lifetime = 0;
  std::uint8_t preference = 0;

  /// The time a packet may need one way.
  [[nodiscard]] constexpr IbTimeout lifetime() const noexcept { return IbTimeout(packet_lifetime); }
  friend constexpr bool operator==(const PathRecord&, const PathRecord&) noexcept = default;
};

/// Reads a record. Fails with Errc::Malformed when there are not exactly PathRecord::kSize bytes.
/// Every bit pattern is a record; whether it makes sense (a zero DLID, an unknown rate) is for the
/// user of it to judge.
[[nodiscard]] Result<PathRecord> parse_path_record(std::span<const std::uint8_t> bytes) noexcept;

/// The same of as many bytes as a record has, which cannot fail.
[[nodiscard]] PathRecord read_path_record(
    std::span<const std::uint8_t, PathRecord::kSize> bytes) noexcept;

/// Writes a record, reserved bits as zero. A value wider than its field is a defect.
void serialize(const PathRecord& record, std::span<std::uint8_t, PathRecord::kSize> to) noexcept;

/// The same path in the other direction, as the word "reversible" promises it: GIDs and LIDs change
/// places, all else stays.
[[nodiscard]] constexpr PathRecord reversed(PathRecord record) noexcept {
  std::swap(record.sgid, record.dgid);
  std::swap(record.slid, record.dlid);
  return record;
}

/// Bits of the SA component mask of a PathRecord request.
namespace path_mask {
inline constexpr std::uint64_t kServiceId = 3ULL << 0U;
inline constexpr std::uint64_t kDgid = 1ULL << 2U;
inline constexpr std::uint64_t kSgid = 1ULL << 3U;
inline constexpr std::uint64_t kDlid = 1ULL << 4U;
inline constexpr std::uint64_t kSlid = 1ULL << 5U;
inline constexpr std::uint64_t kRawTraffic = 1ULL << 6U;
inline constexpr std::uint64_t kFlowLabel = 1ULL << 8U;
inline constexpr std::uint64_t kHopLimit = 1ULL << 9U;
inline constexpr std::uint64_t kTrafficClass = 1ULL << 10U;
inline constexpr std::uint64_t kReversible = 1ULL << 11U;
inline constexpr std::uint64_t kNumbPath = 1ULL << 12U;
inline constexpr std::uint64_t kPKey = 1ULL << 13U;
inline constexpr std::uint64_t kQosClass = 1ULL << 14U;
inline constexpr std::uint64_t kSl = 1ULL << 15U;
inline constexpr std::uint64_t kMtuSelector = 1ULL << 16U;
inline constexpr std::uint64_t kMtu = 1ULL << 17U;
inline constexpr std::uint64_t kRateSelector = 1ULL << 18U;
inline constexpr std::uint64_t kRate = 1ULL << 19U;
inline constexpr std::uint64_t kPacketLifetimeSelector = 1ULL << 20U;
inline constexpr std::uint64_t kPacketLifetime = 1ULL << 21U;
}  // namespace path_mask

}  // namespace wireup::mad
