// SPDX-License-Identifier: BSD-3-Clause
// What the user calls.
#include "conn/driver/driver.hpp"

#include <poll.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.hpp"

namespace wireup::conn {

Result<> Driver::connect(const PeerId& peer, Duration timeout) {
  const std::lock_guard lock(mutex_);
  const Instant now = monotonic_now();
  if (auto done = engine_->connect(peer, deadline_after(now, timeout), now); !done) {
    return done;
  }
  return turn();
}

Result<> Driver::close(const PeerId& peer) {
  const std::lock_guard lock(mutex_);
  if (auto done = engine_->close(peer, monotonic_now()); !done) {
    return done;
  }
  return turn();
}

Result<> Driver::progress() {
  const std::lock_guard lock(mutex_);
  return turn();
}

Result<bool> Driver::wait(Duration timeout) {
  const Instant deadline = deadline_after(monotonic_now(), timeout);
  bool counted = false;
  for (;;) {
    Duration rest{};
    {
      const std::lock_guard lock(mutex_);
      sleepers_ -= counted ? 1 : 0;
      counted = false;
      if (auto done = turn(Sleep::Next); !done) {
        return fail(done.error());
      }
      if (!events_.empty()) {
        return true;
      }
      const Instant now = monotonic_now();
      if (now >= deadline) {
        return false;
      }
      // The timer of the waker is among what wakes.
      rest = deadline - now;
      ++sleepers_;
      counted = true;
    }
    pollfd entry{fd(), POLLIN, 0};
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(rest).count();
    ::poll(&entry, 1,
           static_cast<int>(std::min<std::int64_t>(milliseconds, std::numeric_limits<int>::max())));
  }
}

std::optional<UserEvent> Driver::poll_event() {
  const std::lock_guard lock(mutex_);
  for (const ConnectionId id : std::exchange(ended_, {})) {
    qps_->take_back(id);
  }
  if (events_.empty()) {
    return std::nullopt;
  }
  const UserEvent event = events_.front();
  events_.pop_front();
  clear_signal_if_idle();
  if (const auto* end = std::get_if<Disconnected>(&event.event); end != nullptr) {
    ended_.push_back(end->id);
  }
  return event;
}

void Driver::clear_signal_if_idle() {
  if (events_.empty() && is_signalled_) {
    waker_.clear_signal();
    is_signalled_ = false;
  }
}

int Driver::fd() const noexcept {
  return options_.helper_thread ? waker_.signal_fd() : waker_.fd();
}

std::optional<Duration> Driver::next_timeout() {
  const std::lock_guard lock(mutex_);
  if (!events_.empty()) {
    return Duration(0);
  }
  const auto next = next_deadline();
  if (options_.helper_thread || !next.has_value()) {
    return std::nullopt;
  }
  return std::max<Duration>(*next - monotonic_now(), Duration(0));
}

ibv_qp* Driver::qp(const PeerId& peer) {
  const std::lock_guard lock(mutex_);
  const Connection* connection = engine_->ready(peer);
  return connection != nullptr ? qps_->find(connection->id) : nullptr;
}

std::optional<Connection> Driver::connection(const PeerId& peer) {
  const std::lock_guard lock(mutex_);
  const Connection* connection = engine_->ready(peer);
  return connection != nullptr ? std::optional(*connection) : std::nullopt;
}

Stats Driver::stats() {
  const std::lock_guard lock(mutex_);
  return {engine_->counters(), engine_->cm_counters(), counters_, qps_->size(),
          engine_->ready_count()};
}

}  // namespace wireup::conn
