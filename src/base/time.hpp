// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>

namespace wireup {

using Duration = std::chrono::nanoseconds;

/// The clock of the engines. It has no now(): an engine cannot read time by construction, it is
/// told. Drivers convert from CLOCK_MONOTONIC once per turn of their loop (base/clock.hpp).
struct EngineClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<EngineClock>;
  static constexpr bool is_steady = true;
};

using Instant = EngineClock::time_point;

/// A timeout of the wire: 4.096 us * 2^n with n in 5 bits (IBTA vol 1, 12.7). For the QP's local
/// ACK timeout 0 means "for ever"; for CM response timeouts and lifetimes it is 4.096 us.
class IbTimeout {
 public:
  static constexpr std::uint8_t kMaxExponent = 31;

  constexpr IbTimeout() noexcept = default;
  /// Values above 31 are taken as 31.
  explicit constexpr IbTimeout(std::uint8_t exponent) noexcept
      : exponent_(exponent > kMaxExponent ? kMaxExponent : exponent) {}

  /// The smallest encodable timeout that is not shorter than `duration`.
  [[nodiscard]] static constexpr IbTimeout at_least(Duration duration) noexcept {
    std::uint8_t exponent = 0;
    while (exponent < kMaxExponent && IbTimeout(exponent).duration() < duration) {
      ++exponent;
    }
    return IbTimeout(exponent);
  }

  [[nodiscard]] constexpr std::uint8_t exponent() const noexcept { return exponent_; }
  [[nodiscard]] constexpr Duration duration() const noexcept {
    return Duration(std::int64_t{4096} << exponent_);
  }
  friend constexpr auto operator<=>(const IbTimeout&, const IbTimeout&) noexcept = default;

 private:
  std::uint8_t exponent_ = 0;
};

}  // namespace wireup
