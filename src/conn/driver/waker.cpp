// SPDX-License-Identifier: BSD-3-Clause
#include "conn/driver/waker.hpp"
#include "base/epoll.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace wireup::conn {

Result<Waker> Waker::open(bool signal_wakes) {
  Waker waker;
  waker.epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  waker.timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  waker.signal_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!waker.epoll_.is_open() || !waker.timer_.is_open() || !waker.signal_.is_open()) {
    return fail(
        Error::system(Errc::NoResources, errno,
                      "making the descriptors of a context's event loop (limit: ulimit -n)"));
  }
  if (auto done = waker.watch(waker.timer_.value()); !done) {
    return fail(done.error());
  }
  if (auto done = waker.watch(signal_wakes ? waker.signal_.value() : -1); !done) {
    return fail(done.error());
  }
  return waker;
}

Result<> Waker::watch(int fd) const {
  if (fd < 0) {
    return {};
  }
  if (!watch_readable(epoll_, fd)) {
    return fail(
        Error::system(Errc::NoResources, errno, "adding descriptor %d to the event loop", fd));
  }
  return {};
}

bool Waker::is_readable(int fd) noexcept {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

void Waker::wake_at(std::optional<Instant> at, Instant now) noexcept {
  if (armed_.has_value() && *armed_ <= now) {
    // It has fired, or is about to: read it away so that the epoll descriptor falls silent.
    std::uint64_t expirations = 0;
    static_cast<void>(!::read(timer_.value(), &expirations, sizeof expirations));
    armed_.reset();
  }
  if (!at.has_value() || (armed_.has_value() && *armed_ <= *at)) {
    return;
  }
  // A timerfd set to zero would be disarmed, and one in the past fires at once.
  const auto since_epoch = std::max<Duration>(at->time_since_epoch(), Duration(1));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
  itimerspec spec{};
  spec.it_value.tv_sec = seconds.count();
  spec.it_value.tv_nsec = (since_epoch - seconds).count();
  if (::timerfd_settime(timer_.value(), TFD_TIMER_ABSTIME, &spec, nullptr) == 0) {
    armed_ = at;
  }
}

void Waker::signal() const noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(signal_.value(), &one, sizeof one));
}

void Waker::clear_signal() const noexcept {
  std::uint64_t count = 0;
  static_cast<void>(!::read(signal_.value(), &count, sizeof count));
}

}  // namespace wireup::conn
