// SPDX-License-Identifier: BSD-3-Clause
// The opt-in thread that makes progress while the caller computes.
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "conn/driver/driver.hpp"

namespace wireup::conn {

Result<> Driver::start_helper() {
  if (!options_.helper_thread) {
    return {};
  }
  stop_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!stop_.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "making the helper thread's stop signal"));
  }
  // The thread inherits the mask: signals are the application's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<> result;
  try {
    helper_ = std::thread(&Driver::help, this);
    pthread_setname_np(helper_.native_handle(), "wireup-progress");
  } catch (const std::system_error& error) {
    result = fail(Error::system(Errc::NoResources, error.code().value(),
                                "starting the thread wireup-progress"));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

void Driver::stop_helper() noexcept {
  if (!helper_.joinable()) {
    return;
  }
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_.value(), &one, sizeof one));
  helper_.join();
}

void Driver::help() {
  for (;;) {
    pollfd entries[] = {{waker_.fd(), POLLIN, 0}, {stop_.value(), POLLIN, 0}};
    if (::poll(entries, 2, -1) < 0 && errno != EINTR) {
      return;
    }
    if ((entries[1].revents & POLLIN) != 0) {
      return;
    }
    const std::lock_guard lock(mutex_);
    if (!turn(Sleep::Next)) {
      return;  // the user finds the reason at the next call
    }
  }
}

}  // namespace wireup::conn
