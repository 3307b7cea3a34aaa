// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "cm/engine/types.hpp"

/// When a message is repeated, for connections, alternate paths and service id resolutions alike.
namespace wireup::cm {

/// How long an answer is waited for in an interval.
[[nodiscard]] inline Duration wait_in(Duration interval, Timers timers, const Config& config,
                                      Rng& rng) noexcept {
  return timers == Timers::Iba ? interval : rng.jitter(interval, config.jitter_percent);
}

/// The interval after one in which no answer came.
[[nodiscard]] inline Duration interval_after(Duration interval, Timers timers,
                                             const Config& config) noexcept {
  return timers == Timers::Iba ? interval : std::min(2 * interval, config.max_rto);
}

/// What a message and `retries` repetitions of it take with IBA's timers.
[[nodiscard]] constexpr Duration all_tries(Duration interval, unsigned retries) noexcept {
  return interval * (Duration::rep{retries} + 1);
}

}  // namespace wireup::cm
