// SPDX-License-Identifier: BSD-3-Clause
// Slots of one table of the registry, as one process uses them.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace softhca::hca {

/// Takes whole chunks of slots from the shared table and hands single slots out of them. Chunks
/// stay with the process until it ends. Any thread.
class SlotPool {
 public:
  SlotPool(std::span<std::atomic<std::uint32_t>> chunk_owners, std::uint32_t chunk_size,
           std::uint32_t self)
      : chunk_owners_(chunk_owners), chunk_size_(chunk_size), self_(self) {}

  /// nullopt when every chunk of the table is taken.
  std::optional<std::uint32_t> take();
  void give_back(std::uint32_t slot);

 private:
  bool claim_chunk();

  std::span<std::atomic<std::uint32_t>> chunk_owners_;
  std::uint32_t chunk_size_;
  std::uint32_t self_;
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
};

}  // namespace softhca::hca
