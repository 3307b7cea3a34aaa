// SPDX-License-Identifier: BSD-3-Clause
// Memory for the rings of this process's queues, out of the registry's arena.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "softhca/hca/registry.hpp"

namespace softhca::hca {

/// Small rings share blocks, so that a thousand small queues touch few pages; rings that do not fit
/// get blocks of their own. Blocks of small rings stay with the process. Any thread.
class RingArena {
 public:
  RingArena(Registry& registry, std::uint32_t self) : registry_(&registry), self_(self) {}

  /// Place in the file of `bytes` bytes of any content; 0 when the arena is full.
  std::uint64_t take(std::uint64_t bytes);
  void give_back(std::uint64_t place, std::uint64_t bytes);

 private:
  static constexpr std::uint64_t kSmallest = 64;
  static constexpr std::uint64_t kLargestShared = kArenaBlock / 4;
  static constexpr std::size_t kClasses = 9;  // 64, 128, …, 16 KiB
  static_assert(kSmallest << (kClasses - 1) == kLargestShared);

  bool claim_block(std::uint64_t block);
  std::uint64_t claim_blocks(std::uint64_t count);
  void release_blocks(std::uint64_t place, std::uint64_t count);

  Registry* registry_;
  std::uint32_t self_;
  std::mutex mutex_;
  std::uint64_t next_ = 0;  // unused part of the newest shared block
  std::uint64_t end_ = 0;
  std::array<std::vector<std::uint64_t>, kClasses> free_;
};

}  // namespace softhca::hca
