// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"

namespace wireup::conn {

/// What a driver sleeps on: one epoll descriptor over the descriptors of its parts, a timer, and a
/// signal that can be set from any thread. All level-triggered.
class Waker {
 public:
  /// With `signal_wakes` the signal makes fd() readable as well.
  [[nodiscard]] static Result<Waker> open(bool signal_wakes);

  /// Adds a descriptor that becomes readable; -1 is ignored.
  [[nodiscard]] Result<> watch(int fd) const;
  /// The one to wait on.
  [[nodiscard]] int fd() const noexcept { return epoll_.value(); }
  /// Is `fd` readable now? One system call.
  [[nodiscard]] static bool is_readable(int fd) noexcept;

  /// Wakes at `at` at the latest. Costs a system call only when it has to be earlier than what is
  /// set: an early wake-up does no harm.
  void wake_at(std::optional<Instant> at, Instant now) noexcept;

  void signal() const noexcept;
  void clear_signal() const noexcept;
  /// Readable while signalled.
  [[nodiscard]] int signal_fd() const noexcept { return signal_.value(); }

 private:
  UniqueFd epoll_;
  UniqueFd timer_;
  UniqueFd signal_;
  std::optional<Instant> armed_;
};

}  // namespace wireup::conn
