// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/arena.hpp"

#include <algorithm>
#include <bit>

namespace softhca::hca {
namespace {

std::uint64_t blocks_for(std::uint64_t bytes) {
  return (bytes + kArenaBlock - 1) / kArenaBlock;
}

}  // namespace

std::uint64_t RingArena::take(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t size = std::bit_ceil(std::max(bytes, kSmallest));
  if (size > kLargestShared) {
    return claim_blocks(blocks_for(bytes));
  }
  auto& free = free_[static_cast<std::size_t>(std::countr_zero(size / kSmallest))];
  if (!free.empty()) {
    const std::uint64_t place = free.back();
    free.pop_back();
    return place;
  }
  next_ = (next_ + size - 1) & ~(size - 1);
  if (next_ + size > end_) {
    const std::uint64_t block = claim_blocks(1);
    if (block == 0) {
      return 0;
    }
    next_ = block;
    end_ = block + kArenaBlock;
  }
  const std::uint64_t place = next_;
  next_ += size;
  return place;
}

void RingArena::give_back(std::uint64_t place, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t size = std::bit_ceil(std::max(bytes, kSmallest));
  if (size > kLargestShared) {
    release_blocks(place, blocks_for(bytes));
  } else {
    free_[static_cast<std::size_t>(std::countr_zero(size / kSmallest))].push_back(place);
  }
}

bool RingArena::claim_block(std::uint64_t block) {
  std::atomic<std::uint32_t>& owner = registry_->header().arena_blocks[block];
  if (owner.load(std::memory_order_relaxed) != 0) {
    return false;
  }
  // First the mark: whoever clears away a process that died looks no further than that.
  const auto above = static_cast<std::uint32_t>(block + 1);
  std::atomic<std::uint32_t>& mark = registry_->header().arena_top;
  std::uint32_t top = mark.load();
  while (top < above && !mark.compare_exchange_weak(top, above)) {
  }
  std::uint32_t nobody = 0;
  return owner.compare_exchange_strong(nobody, self_, std::memory_order_acq_rel);
}

/// The first run of free blocks that is long enough. Another process may take one of them
/// meanwhile; then the search goes on behind it.
std::uint64_t RingArena::claim_blocks(std::uint64_t count) {
  auto& owners = registry_->header().arena_blocks;
  std::uint64_t have = 0;
  for (std::uint64_t block = 0; block < kArenaBlocks; ++block) {
    if (claim_block(block)) {
      if (++have == count) {
        return kArena + (block + 1 - count) * kArenaBlock;
      }
      continue;
    }
    for (; have > 0; --have) {
      owners[block - have].store(0, std::memory_order_release);
    }
  }
  for (; have > 0; --have) {
    owners[kArenaBlocks - have].store(0, std::memory_order_release);
  }
  return 0;
}

void RingArena::release_blocks(std::uint64_t place, std::uint64_t count) {
  registry_->empty_pages(place, count * kArenaBlock);
  for (std::uint64_t i = 0; i < count; ++i) {
    registry_->header().arena_blocks[(place - kArena) / kArenaBlock + i].store(
        0, std::memory_order_release);
  }
}

}  // namespace softhca::hca
