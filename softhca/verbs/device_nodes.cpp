// SPDX-License-Identifier: BSD-3-Clause
// The character devices /dev/infiniband/uverbsN, which do not exist: UCX looks whether they do and
// may be opened, and leaves out a device without one. Nobody opens them, since ibv_open_device() is
// ours. All other paths go to the kernel as they came; no library call is made for them.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "softhca/verbs/objects.hpp"

using namespace softhca;
using namespace softhca::verbs;

namespace {

// What the kernel gives them.
constexpr unsigned kUverbsMajor = 231;
constexpr unsigned kFirstMinor = 192;

/// N of /dev/infiniband/uverbsN when this host has such a device.
std::optional<unsigned> uverbs_number(const char* path) {
  constexpr std::string_view kNodes = "/dev/infiniband/uverbs";
  if (path == nullptr || std::strncmp(path, kNodes.data(), kNodes.size()) != 0) {
    return std::nullopt;
  }
  const std::string_view digits = std::string_view(path).substr(kNodes.size());
  unsigned number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  hca::Runtime* runtime = hca::Runtime::instance();
  if (runtime == nullptr || number >= runtime->view().hcas_of(runtime->host()).size()) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

SOFTHCA_EXPORT int stat(const char* path, struct stat* info) noexcept {
  if (const auto number = uverbs_number(path)) {
    *info = {};
    info->st_mode = S_IFCHR | 0666;
    info->st_nlink = 1;
    info->st_rdev = makedev(kUverbsMajor, kFirstMinor + *number);
    return 0;
  }
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, info, 0));
}

SOFTHCA_EXPORT int access(const char* path, int mode) noexcept {
  if (uverbs_number(path)) {
    if ((mode & X_OK) != 0) {
      errno = EACCES;
      return -1;
    }
    return 0;
  }
  return static_cast<int>(::syscall(SYS_faccessat, AT_FDCWD, path, mode));
}
