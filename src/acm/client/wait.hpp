// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// Sleeps until `fd` is readable or it is `until`, a minute at most: what woke it, the caller's
/// next turn finds.
inline void wait_readable(int fd, Instant until) noexcept {
  pollfd descriptor{fd, POLLIN, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - monotonic_now()).count();
  constexpr std::int64_t kLongest = 60'000;
  static_cast<void>(
      poll(&descriptor, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest))));
}

}  // namespace wireup::acm
