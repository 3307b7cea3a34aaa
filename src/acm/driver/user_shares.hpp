// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/time.hpp"

namespace wireup::acm {

/// What each user holds of something that the users of a node share, with a bound for each: one
/// user's thousands must not lock the others out.
class UserShares {
 public:
  explicit UserShares(std::size_t most_each) noexcept : most_each_(most_each) {}

  /// False when the user has as many as one may.
  [[nodiscard]] bool take(uid_t user) {
    std::size_t& held = held_[user];
    if (held >= most_each_) {
      return false;
    }
    ++held;
    return true;
  }
  /// Of what was taken.
  void give_back(uid_t user) {
    const auto at = held_.find(user);
    if (at != held_.end() && --at->second == 0) {
      held_.erase(at);
    }
  }
  [[nodiscard]] bool is_full(uid_t user) const { return held(user) >= most_each_; }
  [[nodiscard]] std::size_t held(uid_t user) const {
    const auto at = held_.find(user);
    return at == held_.end() ? 0 : at->second;
  }

 private:
  std::size_t most_each_;
  std::map<uid_t, std::size_t> held_;
};

/// How often each user may do something: `burst` times at once, `per_second` times lastingly.
class UserRate {
 public:
  UserRate(std::int64_t burst, std::int64_t per_second) noexcept
      : interval_(Duration(std::chrono::seconds(1)) / per_second), span_(interval_ * burst) {}

  /// False: too often; it does not count.
  [[nodiscard]] bool allow(uid_t user, Instant now) {
    // The time up to which what was done is paid for; never behind `now` by more than the burst.
    Instant& paid_until = paid_until_[user];
    const Instant next = std::max(paid_until, now) + interval_;
    if (next > now + span_) {
      return false;
    }
    paid_until = next;
    return true;
  }

 private:
  Duration interval_;
  Duration span_;
  std::map<uid_t, Instant> paid_until_;
};

}  // namespace wireup::acm
