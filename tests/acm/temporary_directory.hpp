// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace wireup::acm::test {

/// A directory of the test's own, removed with what is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = std::filesystem::temp_directory_path() / "wireup-acm-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// From here on every system call of this thread but read, write, exit and sigreturn kills it.
inline void forbid_system_calls() {
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
    _exit(2);
  }
}

/// exit_group is forbidden then too.
[[noreturn]] inline void exit_now(int status) {
  syscall(SYS_exit, status);
  abort();
}

}  // namespace wireup::acm::test
