// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <exception>
#include <new>
#include <string>

#include "base/result.hpp"

namespace wireup::cm::ibcm {

/// What a program's errno is for an error.
[[nodiscard]] inline int errno_of(const Error& error) noexcept {
  if (error.is(Errc::InvalidState) && error.error_number() != 0) {
    return error.error_number();
  }
  if (error.is(Errc::Busy)) {
    return EBUSY;
  }
  if (error.is(Errc::Stale)) {
    return ESTALE;
  }
  if (error.is(Errc::NoPermission)) {
    return EACCES;
  }
  if (error.is(Errc::NoDevice)) {
    return ENODEV;
  }
  if (error.is(Errc::NoResources) || error.is(Errc::MemlockLimit)) {
    return ENOMEM;
  }
  const bool is_misuse =
      error.is(Errc::InvalidArgument) || error.is(Errc::InvalidState) || error.is(Errc::NotFound);
  return is_misuse ? EINVAL : EIO;
}

/// The sentence of this thread's last failed call.
[[nodiscard]] inline std::string& last_error() noexcept {
  thread_local std::string sentence;
  return sentence;
}

/// Runs the body of a call, which returns a Result: 0, or -1 and errno.
template <typename Body>
int call(Body body) noexcept {
  int error = EIO;
  try {
    const Result<> done = body();
    if (done) {
      return 0;
    }
    error = errno_of(done.error());
    last_error() = std::string(done.error().what());
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
    last_error().clear();
  } catch (const std::exception&) {
    last_error().clear();
  }
  errno = error;
  return -1;
}

}  // namespace wireup::cm::ibcm
