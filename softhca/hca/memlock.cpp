// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/memlock.hpp"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace softhca::hca {
namespace {

bool may_lock_without_limit() {
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  header.pid = 0;
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) {
    return false;
  }
  static_assert(CAP_IPC_LOCK < 32);
  return (data[0].effective & (1U << CAP_IPC_LOCK)) != 0;
}

}  // namespace

bool Memlock::charge(std::uint64_t pages) {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t total = pages_.fetch_add(pages, std::memory_order_relaxed) + pages;
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      total > limit.rlim_cur / kPage && !may_lock_without_limit()) {
    uncharge(pages);
    return false;
  }
  return true;
}

}  // namespace softhca::hca
