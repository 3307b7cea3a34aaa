// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/capability.hpp"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace softhca::hca {

bool has_capability(unsigned number) {
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  header.pid = 0;
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) {
    return false;
  }
  return number < 32 && (data[0].effective & (1U << number)) != 0;
}

}  // namespace softhca::hca
