// SPDX-License-Identifier: BSD-3-Clause
// What the programs of scripts/bench share: times, and the quantiles that they report.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace bench {

using Clock = std::chrono::steady_clock;

inline double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// The value below which the share `q` (0 … 1) of the samples lies. Sorts them; there must be one.
inline double quantile(std::vector<double>& samples, double q) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1))];
}

/// How long a program goes on taking samples: on a crowded machine a round takes a thousand times
/// as long as on a quiet one, and the ratio of two stacks needs few of them.
inline constexpr std::chrono::seconds kPatience{5};

}  // namespace bench
