// SPDX-License-Identifier: BSD-3-Clause
// Spin lock in shared memory between processes of which any may die or be stopped while holding it.
#pragma once

#include <cstdint>

#include "softhca/hca/layout.hpp"
#include "softhca/hca/process_table.hpp"

namespace softhca::hca {

/// The token of the process that holds a lock, from the lock's word; 0: nobody.
constexpr std::uint32_t lock_owner(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}

/// Holds a LockWord from construction to destruction.
///
/// Waiting yields the processor. A lock whose owner is dead is taken over at once when that is
/// noticed (after some milliseconds); a lock whose owner has been stopped (SIGSTOP) is taken over
/// after a while too, since a stopped process must not stop the fabric. An owner that was stopped
/// therefore asks `held()` before it publishes anything.
class RobustGuard {
 public:
  RobustGuard(LockWord& lock, const ProcessTable& processes, std::uint32_t self)
      : lock_(&lock), mine_(next_word(self)) {
    std::uint64_t free = 0;
    if (!lock.value.compare_exchange_strong(free, mine_, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      wait(processes);
    }
  }
  RobustGuard(const RobustGuard&) = delete;
  RobustGuard& operator=(const RobustGuard&) = delete;
  ~RobustGuard() { release(); }

  /// False when another process has taken the lock over meanwhile.
  [[nodiscard]] bool held() const {
    return lock_ != nullptr && lock_->value.load(std::memory_order_acquire) == mine_;
  }

  /// Gives the lock back early; harmless when it was taken over or given back already.
  void release() {
    if (lock_ != nullptr) {
      std::uint64_t mine = mine_;
      lock_->value.compare_exchange_strong(mine, 0, std::memory_order_release,
                                           std::memory_order_relaxed);
      lock_ = nullptr;
    }
  }

 private:
  static std::uint64_t next_word(std::uint32_t self);
  void wait(const ProcessTable& processes);

  LockWord* lock_;
  std::uint64_t mine_;
};

}  // namespace softhca::hca
