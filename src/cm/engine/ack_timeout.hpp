// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "base/time.hpp"

namespace wireup::cm {

/// Local ACK timeout of a QP from the ACK delay of the responding channel adapter and the packet
/// lifetime of the path: two lifetimes and the delay, rounded up to an exponent when both matter
/// (IBTA vol 1, 12.7.34). The active side uses REP's target ACK delay, REQ carries the sender's.
[[nodiscard]] constexpr IbTimeout ack_timeout(IbTimeout ack_delay, IbTimeout lifetime) noexcept {
  const unsigned round_trip = lifetime.exponent() + 1U;
  const unsigned delay = ack_delay.exponent();
  const unsigned larger = round_trip > delay ? round_trip : delay;
  const unsigned smaller = round_trip > delay ? delay : round_trip;
  const unsigned sum = larger + (smaller + 1 >= larger ? 1U : 0U);
  return IbTimeout(static_cast<std::uint8_t>(sum > IbTimeout::kMaxExponent
                                                 ? std::uint8_t{IbTimeout::kMaxExponent}
                                                 : static_cast<std::uint8_t>(sum)));
}

}  // namespace wireup::cm
