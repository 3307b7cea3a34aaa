// SPDX-License-Identifier: BSD-3-Clause
#include "pmix/driver/mailbox.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>

#include "pmix/driver/steady.hpp"

namespace wireup::pmix {

Result<> Mailbox::open() {
  event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "card exchange: no eventfd"));
  }
  return {};
}

void Mailbox::post(Reply reply) {
  {
    const std::lock_guard lock(mutex_);
    replies_.push_back(std::move(reply));
  }
  changed_.notify_one();
  wake();
}

void Mailbox::wake() noexcept {
  // Fails only when the counter is full, and then the fd is readable already.
  static_cast<void>(eventfd_write(event_.value(), 1));
}

void Mailbox::clear_fd() noexcept {
  eventfd_t count = 0;
  static_cast<void>(eventfd_read(event_.value(), &count));
}

std::optional<Reply> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  if (replies_.empty()) {
    return std::nullopt;
  }
  Reply reply = std::move(replies_.front());
  replies_.pop_front();
  return reply;
}

void Mailbox::wait(Instant deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, to_steady(deadline), [this] { return !replies_.empty(); });
}

}  // namespace wireup::pmix
