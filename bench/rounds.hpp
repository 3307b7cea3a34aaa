// SPDX-License-Identifier: BSD-3-Clause
// Rounds of a bench program on two MPI ranks.
#pragma once

#include <vector>

#include "figures.hpp"

namespace bench {

constexpr int kBatch = 100;  // round trips between two looks at the clock
constexpr int kWarmUp = kBatch / 2;

/// Decides at rank 0 whether there is another batch of rounds, and tells rank 1.
bool go_on(int rank, int round, int rounds, Clock::time_point begin);

/// Makes up to `rounds` round trips, in whole batches, by `round_trip(round)`. Returns half of the
/// time of each, in microseconds, those of the warm-up left out.
template <typename RoundTrip>
std::vector<double> half_round_trips(int rank, int rounds, RoundTrip&& round_trip) {
  std::vector<double> times;
  const auto begin = Clock::now();
  for (int round = 0; round % kBatch != 0 || go_on(rank, round, rounds, begin); ++round) {
    const auto start = Clock::now();
    round_trip(round);
    if (round >= kWarmUp) {
      times.push_back(microseconds_since(start) / 2);
    }
  }
  return times;
}

}  // namespace bench
