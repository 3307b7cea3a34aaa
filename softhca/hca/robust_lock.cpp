// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/robust_lock.hpp"

#include <sched.h>

#include <atomic>

#include "softhca/hca/clock.hpp"

namespace softhca::hca {
namespace {

constexpr int kSpins = 32;
constexpr std::uint64_t kAskAfterNs = 5'000'000;        // then ask /proc about the owner …
constexpr std::uint64_t kAskAgainNs = 20'000'000;       // … and again this often
constexpr std::uint64_t kStoppedGraceNs = 100'000'000;  // how long a stopped owner is waited for

}  // namespace

std::uint64_t RobustGuard::next_word(std::uint32_t self) {
  static std::atomic<std::uint32_t> acquisitions{0};
  return std::uint64_t{self} << 32 | acquisitions.fetch_add(1, std::memory_order_relaxed);
}

void RobustGuard::wait(const ProcessTable& processes) {
  std::uint64_t seen = 0;   // the word that blocks us
  std::uint64_t since = 0;  // since when it does
  std::uint64_t ask_at = 0;
  for (int spins = 0;; ++spins) {
    std::uint64_t word = lock_->value.load(std::memory_order_relaxed);
    if (word == 0) {
      if (lock_->value.compare_exchange_weak(word, mine_, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
        return;
      }
      continue;
    }
    if (spins < kSpins) {
      __builtin_ia32_pause();
      continue;
    }
    ::sched_yield();
    const std::uint64_t now = monotonic_ns();
    if (word != seen) {
      seen = word;
      since = now;
      ask_at = now + kAskAfterNs;
      continue;
    }
    if (now < ask_at) {
      continue;
    }
    ask_at = now + kAskAgainNs;
    const Liveness owner = processes.liveness(lock_owner(word));
    const bool take =
        owner == Liveness::Dead || (owner == Liveness::Stopped && now - since >= kStoppedGraceNs);
    if (take && lock_->value.compare_exchange_strong(word, mine_, std::memory_order_acquire,
                                                     std::memory_order_relaxed)) {
      return;
    }
  }
}

}  // namespace softhca::hca
