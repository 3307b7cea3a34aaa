// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/slots.hpp"

namespace softhca::hca {

std::optional<std::uint32_t> SlotPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty() && !claim_chunk()) {
    return std::nullopt;
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotPool::give_back(std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

bool SlotPool::claim_chunk() {
  for (std::uint32_t chunk = 0; chunk < chunk_owners_.size(); ++chunk) {
    std::uint32_t nobody = 0;
    if (chunk_owners_[chunk].load(std::memory_order_relaxed) == 0 &&
        chunk_owners_[chunk].compare_exchange_strong(nobody, self_, std::memory_order_acq_rel)) {
      free_.reserve(free_.size() + chunk_size_);
      for (std::uint32_t i = chunk_size_; i > 0; --i) {
        free_.push_back(chunk * chunk_size_ + i - 1);
      }
      return true;
    }
  }
  return false;
}

}  // namespace softhca::hca
