// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/time.hpp"

namespace wireup {

/// One optional deadline per enumerator of `Timer`, an enum class whose last enumerator is kCount.
/// No timer objects and no callbacks: the owner asks what has expired. A value type.
template <typename Timer>
class TimerTable {
 public:
  static constexpr std::size_t kCount = static_cast<std::size_t>(Timer::kCount);

  constexpr void set(Timer timer, Instant deadline) noexcept { slot(timer) = deadline; }
  constexpr void stop(Timer timer) noexcept { slot(timer).reset(); }
  constexpr void stop_all() noexcept { deadlines_ = {}; }

  [[nodiscard]] constexpr bool is_set(Timer timer) const noexcept {
    return deadlines_[static_cast<std::size_t>(timer)].has_value();
  }
  [[nodiscard]] constexpr std::optional<Instant> deadline(Timer timer) const noexcept {
    return deadlines_[static_cast<std::size_t>(timer)];
  }
  [[nodiscard]] constexpr bool is_expired(Timer timer, Instant now) const noexcept {
    const auto& deadline = deadlines_[static_cast<std::size_t>(timer)];
    return deadline.has_value() && *deadline <= now;
  }
  /// Stops the timer if it has expired and tells whether it had.
  constexpr bool take_expired(Timer timer, Instant now) noexcept {
    if (!is_expired(timer, now)) {
      return false;
    }
    stop(timer);
    return true;
  }
  /// The earliest deadline; nothing when no timer runs.
  [[nodiscard]] constexpr std::optional<Instant> next() const noexcept {
    std::optional<Instant> earliest;
    for (const auto& deadline : deadlines_) {
      if (deadline.has_value() && (!earliest.has_value() || *deadline < *earliest)) {
        earliest = deadline;
      }
    }
    return earliest;
  }
  friend constexpr bool operator==(const TimerTable&, const TimerTable&) noexcept = default;

 private:
  constexpr std::optional<Instant>& slot(Timer timer) noexcept {
    return deadlines_[static_cast<std::size_t>(timer)];
  }

  std::array<std::optional<Instant>, kCount> deadlines_{};
};

}  // namespace wireup
