// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

namespace wireup::mad {

// Codes of MTU and static rate (IBTA vol 1, tables for PathRecord and MCMemberRecord). The codes
// stay numbers: what a peer or the SA sent need not be one that we know.

inline constexpr std::uint8_t kMtu256 = 1;
inline constexpr std::uint8_t kMtu512 = 2;
inline constexpr std::uint8_t kMtu1024 = 3;
inline constexpr std::uint8_t kMtu2048 = 4;
inline constexpr std::uint8_t kMtu4096 = 5;

inline constexpr std::uint8_t kRate10 = 3;
inline constexpr std::uint8_t kRate40 = 7;
inline constexpr std::uint8_t kRate100 = 16;

/// Bytes of an MTU code; nothing for a code that is not 1 to 5.
[[nodiscard]] constexpr std::optional<std::uint32_t> mtu_bytes(std::uint8_t code) noexcept {
  if (code < kMtu256 || code > kMtu4096) {
    return std::nullopt;
  }
  return std::uint32_t{128} << code;
}

/// Nominal speed of a rate code in Mb/s, XDR included; nothing for a code without a meaning. Codes
/// are not in the order of their speeds (25 Gb/s is 15, 80 Gb/s is 9): order them by this.
[[nodiscard]] std::optional<std::uint32_t> rate_mbps(std::uint8_t code) noexcept;

/// Orders two rate codes by speed; an unknown code is slower than every known one.
[[nodiscard]] std::strong_ordering compare_rates(std::uint8_t a, std::uint8_t b) noexcept;

/// The slower of two rate codes; the known one when the other is unknown.
[[nodiscard]] std::uint8_t slower_rate(std::uint8_t a, std::uint8_t b) noexcept;

/// The rate code of a link of `lanes` (1, 2, 4, 8, 12) at the speed of `speed`, the bit of
/// ibv_port_attr::active_speed (1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR, 128 NDR,
/// 256 XDR). Nothing when the two have no code.
[[nodiscard]] std::optional<std::uint8_t> link_rate(unsigned lanes, std::uint32_t speed) noexcept;

}  // namespace wireup::mad
