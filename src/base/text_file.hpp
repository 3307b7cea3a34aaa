// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace wireup {

/// The whole of a file. Errc::NotFound: there is none. Errc::NoPermission: it cannot be read, for
/// whatever reason the system gives. For drivers only.
[[nodiscard]] inline Result<std::string> read_text_file(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) {
    const bool is_absent = errno == ENOENT || errno == ENOTDIR;
    return fail(Error::system(is_absent ? Errc::NotFound : Errc::NoPermission, errno, "reading %s",
                              path.c_str()));
  }
  constexpr std::size_t kBlock = 65536;
  std::string text;
  std::vector<char> block(kBlock);
  ssize_t size = 0;
  while ((size = read(fd.value(), block.data(), block.size())) != 0) {
    if (size < 0 && errno != EINTR) {
      return fail(Error::system(Errc::NoPermission, errno, "reading %s", path.c_str()));
    }
    text.append(block.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size)));
  }
  return text;
}

}  // namespace wireup
