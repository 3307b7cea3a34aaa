// SPDX-License-Identifier: BSD-3-Clause
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "verbs/objects.hpp"

namespace wireup::verbs {
namespace {

/// A process with CAP_IPC_LOCK may lock without limit.
bool may_lock_without_limit() noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  return ::syscall(SYS_capget, &header, data) == 0 &&
         (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

}  // namespace

void report_destroy_failure(const char* what, int error_number) noexcept {
  char buffer[128] = {};
  const char* text = strerror_r(error_number, buffer, sizeof buffer);
  std::fprintf(stderr, "wireup: warn: destroying a %s failed: %s (errno %d)\n", what, text,
               error_number);
}

Error creation_error(const char* what, std::string_view device, int error_number,
                     std::size_t bytes_needed) {
  const auto name_size = static_cast<int>(device.size());
  rlimit limit{};
  if (error_number == ENOMEM && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY && !may_lock_without_limit()) {
    return Error::make(Errc::MemlockLimit,
                       "creating %s on %.*s: about %zu KiB more must be locked, the limit "
                       "(RLIMIT_MEMLOCK) is %llu KiB in all; raise it: ulimit -l, limits.conf, or "
                       "LimitMEMLOCK= of the service",
                       what, name_size, device.data(), (bytes_needed + 1023) / 1024,
                       static_cast<unsigned long long>(limit.rlim_cur / 1024));
  }
  const Errc kind =
      error_number == EPERM || error_number == EACCES ? Errc::NoPermission : Errc::NoResources;
  return Error::system(kind, error_number, "creating %s on %.*s", what, name_size, device.data());
}

}  // namespace wireup::verbs
