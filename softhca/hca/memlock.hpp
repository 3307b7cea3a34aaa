// SPDX-License-Identifier: BSD-3-Clause
// RLIMIT_MEMLOCK as the kernel charges it for pinned memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softhca/hca/faults.hpp"

namespace softhca::hca {

/// Pages that this process holds pinned: memory regions and the rings of CQs, QPs and SRQs. Like
/// the kernel, it counts whole pages per object (a page in two regions counts twice), refuses what
/// would pass RLIMIT_MEMLOCK, and lets a process with CAP_IPC_LOCK in its effective set pass. A
/// fault rule may lower the limit for all.
class Memlock {
 public:
  /// False when the limit forbids it; the caller's error is ENOMEM.
  bool charge(std::uint64_t pages);
  /// From now on looks at the rules for the HCA with port `at`.
  void look_at(const Faults& faults, PortIndex at) {
    faults_ = &faults;
    at_ = at;
  }
  void uncharge(std::uint64_t pages) { pages_.fetch_sub(pages, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t pages() const { return pages_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> pages_{0};
  const Faults* faults_ = nullptr;
  PortIndex at_ = kNoPort;
};

/// Pages touched by `length` bytes at `address`.
constexpr std::uint64_t pages_of(std::uint64_t address, std::uint64_t length) {
  constexpr std::uint64_t kPage = 4096;
  return length == 0 ? 0 : (address + length - 1) / kPage - address / kPage + 1;
}

}  // namespace softhca::hca
