// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ctime>

#include <cstdint>

namespace softhca::hca {

/// CLOCK_MONOTONIC in nanoseconds; a few dozen nanoseconds, no system call.
inline std::uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// The same clock as of the kernel's last tick, some milliseconds ago: cheaper still.
inline std::uint64_t coarse_monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// CLOCK_REALTIME in nanoseconds.
inline std::uint64_t wallclock_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace softhca::hca
