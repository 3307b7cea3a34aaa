// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/memlock.hpp"

#include <linux/capability.h>
#include <sys/resource.h>

#include "softhca/hca/capability.hpp"

namespace softhca::hca {

bool Memlock::charge(std::uint64_t pages) {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t total = pages_.fetch_add(pages, std::memory_order_relaxed) + pages;
  const auto lowered =
      faults_ != nullptr ? faults_->limit(Limit::Memory, at_) : std::optional<std::uint64_t>{};
  if (lowered && total > *lowered / kPage) {
    uncharge(pages);
    return false;
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      total > limit.rlim_cur / kPage && !has_capability(CAP_IPC_LOCK)) {
    uncharge(pages);
    return false;
  }
  return true;
}

}  // namespace softhca::hca
