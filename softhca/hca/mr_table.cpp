// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/mr_table.hpp"

namespace softhca::hca {

std::optional<std::uint64_t> translate(const Registry& registry, std::uint32_t key,
                                       std::uint32_t token, std::uint32_t pd, std::uint64_t address,
                                       std::uint64_t length, std::uint32_t access) {
  const std::uint32_t slot = key >> 8;
  if (key == 0 || slot >= kMaxMrs) {
    return std::nullopt;
  }
  const MrRecord& record = registry.mr(slot);
  if (record.key.load(std::memory_order_acquire) != key ||
      record.owner.load(std::memory_order_relaxed) != token || record.pd != pd ||
      (record.access & access) != access) {
    return std::nullopt;
  }
  if (address < record.iova || length > record.length ||
      address - record.iova > record.length - length) {
    return std::nullopt;
  }
  return record.address + (address - record.iova);
}

}  // namespace softhca::hca
