// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>

#include "base/time.hpp"

namespace wireup::pmix {

/// An Instant of base/clock.hpp for the standard library's timed waits: steady_clock is
/// CLOCK_MONOTONIC here.
[[nodiscard]] inline std::chrono::steady_clock::time_point to_steady(Instant instant) noexcept {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(instant.time_since_epoch()));
}

}  // namespace wireup::pmix
