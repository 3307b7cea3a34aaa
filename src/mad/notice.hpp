// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace wireup::mad {

/// Trap numbers of the generic notices that we know (IBTA vol 1, table 131).
namespace trap {
/// A port that can be reached now, or cannot any more; the notice names its GID.
inline constexpr std::uint16_t kInService = 64;
inline constexpr std::uint16_t kOutOfService = 65;
/// A multicast group that was made or ended; the notice names its MGID.
inline constexpr std::uint16_t kGroupCreated = 66;
inline constexpr std::uint16_t kGroupDeleted = 67;
/// The state of a link of the switch with the LID that the notice names.
inline constexpr std::uint16_t kLinkStateChange = 128;
/// Capabilities, description or the like of the port with the LID that the notice names.
inline constexpr std::uint16_t kCapabilityChange = 144;
}  // namespace trap

/// Notice (IBTA vol 1, 13.4.8.2), 80 bytes on the wire. Values in host byte order; the details are
/// kept as they came.
struct Notice {
  static constexpr std::size_t kSize = 80;
  static constexpr std::size_t kDetailsSize = 54;

  bool is_generic = false;
  /// 7 bits: 0 fatal, 1 urgent, 2 security, 3 subnet management, 4 informational.
  std::uint8_t type = 0;
  /// 24 bits: kind of node that made it, or the vendor.
  std::uint32_t producer = 0;
  /// The trap number of a generic notice; else a device's own number.
  std::uint16_t trap_number = 0;
  Lid issuer_lid;
  bool toggle = false;
  /// 15 bits.
  std::uint16_t count = 0;
  std::array<std::uint8_t, kDetailsSize> details{};
  Gid issuer_gid;

  /// The GID that traps 64 to 67 are about; nothing for others.
  [[nodiscard]] std::optional<Gid> subject_gid() const noexcept;
  /// The LID that traps 128 and 144 are about; nothing for others.
  [[nodiscard]] std::optional<Lid> subject_lid() const noexcept;
  friend constexpr bool operator==(const Notice&, const Notice&) noexcept = default;
};

/// Reads a notice. Fails with Errc::Malformed unless there are exactly Notice::kSize bytes.
[[nodiscard]] Result<Notice> parse_notice(std::span<const std::uint8_t> bytes) noexcept;
/// Writes a notice. A value wider than its field is a defect.
void serialize(const Notice& notice, std::span<std::uint8_t, Notice::kSize> to) noexcept;

/// InformInfo (IBTA vol 1, 13.4.8.3), 36 bytes on the wire: a subscription to notices. Values in
/// host byte order.
struct InformInfo {
  static constexpr std::size_t kSize = 36;
  /// "Any", for LID ranges, types and trap numbers, and for producers.
  static constexpr std::uint16_t kAny = 0xFFFF;
  static constexpr std::uint32_t kAnyProducer = 0xFFFFFF;

  /// Of one port; zero: the LID range counts.
  Gid gid;
  Lid lid_begin;
  Lid lid_end;
  bool is_generic = false;
  bool subscribe = false;
  std::uint16_t type = 0;
  std::uint16_t trap_number = 0;
  /// Queue pair that the reports go to.
  Qpn qpn;
  /// 5 bits: 4.096 us * 2^n, within which a report is answered.
  std::uint8_t response_time = 0;
  /// 24 bits.
  std::uint32_t producer = 0;
  friend constexpr bool operator==(const InformInfo&, const InformInfo&) noexcept = default;
};

/// A subscription of QP 1 to one generic trap of all ports.
[[nodiscard]] InformInfo subscription_to(std::uint16_t trap_number) noexcept;

/// Reads a subscription. Fails with Errc::Malformed unless there are exactly InformInfo::kSize
/// bytes.
[[nodiscard]] Result<InformInfo> parse_inform_info(std::span<const std::uint8_t> bytes) noexcept;
/// Writes a subscription, reserved bits as zero. A value wider than its field is a defect.
void serialize(const InformInfo& info, std::span<std::uint8_t, InformInfo::kSize> to) noexcept;

}  // namespace wireup::mad
