// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace softhca {

/// Steele, Lea and Flood's SplitMix64: every counter value gives an independent looking number.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

inline constexpr std::uint32_t kMillion = 1'000'000;

/// Whether something of a probability in parts per million comes true for a random number.
constexpr bool happens(std::uint32_t ppm, std::uint64_t random) {
  return random % kMillion < ppm;
}

}  // namespace softhca
