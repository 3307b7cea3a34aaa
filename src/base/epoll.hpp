// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/epoll.h>

#include "base/unique_fd.hpp"

namespace wireup {

/// Makes `epoll` readable whenever `fd` is; closing `fd` ends that. False, with errno, when the
/// system has no room.
[[nodiscard]] inline bool watch_readable(const UniqueFd& epoll, int fd) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll.value(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace wireup
