// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <optional>

#include "base/time.hpp"

namespace wireup::cm {

/// Smoothed round trip and its variation, in the manner of RFC 6298. Feed it only round trips of
/// messages that were sent once (Karn's rule). A value.
///
/// The interval is never less than twice the round trip: the variation of even round trips goes
/// to nothing, and jitter must not make a message come again before its answer.
class RttEstimator {
 public:
  constexpr void add(Duration sample) noexcept {
    if (!smoothed_.has_value()) {
      smoothed_ = sample;
      variation_ = sample / 2;
      return;
    }
    const Duration error = *smoothed_ > sample ? *smoothed_ - sample : sample - *smoothed_;
    variation_ += (error - variation_) / 4;
    *smoothed_ += (sample - *smoothed_) / 8;
  }

  [[nodiscard]] constexpr std::optional<Duration> smoothed() const noexcept { return smoothed_; }
  /// The first retransmission interval, within [min, max]; `initial` without a sample.
  [[nodiscard]] constexpr Duration rto(Duration initial, Duration min,
                                       Duration max) const noexcept {
    const Duration wanted =
        smoothed_.has_value() ? *smoothed_ + std::max(4 * variation_, *smoothed_) : initial;
    return std::clamp(wanted, min, max);
  }
  friend constexpr bool operator==(const RttEstimator&, const RttEstimator&) noexcept = default;

 private:
  std::optional<Duration> smoothed_;
  Duration variation_{};
};

}  // namespace wireup::cm
