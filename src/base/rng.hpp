// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "base/time.hpp"

namespace wireup {

/// The engines' source of ids, PSNs, TIDs and jitter: a value (copied with the engine), seeded
/// from outside, equal on every platform. Not for secrets. The mixing function is Steele, Lea and
/// Flood's SplitMix64 (OOPSLA 2014).
class Rng {
 public:
  explicit constexpr Rng(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }
  /// Uniform in [0, bound); 0 when bound is 0.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    return bound == 0 ? 0 : next() % bound;
  }
  /// `base` plus or minus up to `percent` per cent of it.
  constexpr Duration jitter(Duration base, unsigned percent) noexcept {
    const auto span = static_cast<std::uint64_t>(base.count()) * percent / 100;
    return base - Duration(static_cast<std::int64_t>(span)) +
           Duration(static_cast<std::int64_t>(below(2 * span + 1)));
  }
  friend constexpr bool operator==(const Rng&, const Rng&) noexcept = default;

 private:
  std::uint64_t state_;
};

}  // namespace wireup
