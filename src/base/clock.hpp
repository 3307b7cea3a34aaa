// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ctime>

#include "base/time.hpp"

namespace wireup {

/// CLOCK_MONOTONIC as an Instant. For drivers only; an engine that calls this fails the symbol
/// gate (tests: gate.engine_symbols).
[[nodiscard]] inline Instant monotonic_now() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Instant(std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec));
}

}  // namespace wireup
