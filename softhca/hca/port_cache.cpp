// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/port_cache.hpp"

namespace softhca::hca {

PortCache::~PortCache() = default;

const PortAttr& PortCache::port(PortIndex index) {
  if (index >= entries_.size()) {
    return absent_;
  }
  // The generation is read before the port, so a change in between is seen the next time.
  const std::uint64_t generation = view_->generation();
  Entry* entry = entries_[index].load(std::memory_order_acquire);
  if (entry != nullptr && entry->generation.load(std::memory_order_acquire) == generation) {
    return entry->attr;
  }
  const std::lock_guard lock(mutex_);
  entry = entries_[index].load(std::memory_order_relaxed);
  auto fresh = std::make_unique<Entry>();
  fresh->attr = view_->port(index);
  if (entry != nullptr &&
      static_cast<const PortRecord&>(entry->attr) == static_cast<const PortRecord&>(fresh->attr)) {
    entry->generation.store(generation, std::memory_order_release);
    return entry->attr;
  }
  fresh->generation.store(generation, std::memory_order_relaxed);
  entry = fresh.get();
  owned_.push_back(std::move(fresh));
  entries_[index].store(entry, std::memory_order_release);
  return entry->attr;
}

std::optional<PortIndex> RouteCache::resolve(const FabricView& view, PortIndex from,
                                             std::uint16_t dlid) {
  const auto generation = static_cast<std::uint32_t>(view.generation());
  std::uint64_t packed = packed_.load(std::memory_order_relaxed);
  if (packed == 0 || static_cast<std::uint32_t>(packed >> 32) != generation) {
    const auto port = view.unicast(from, dlid);
    packed = std::uint64_t{generation} << 32 | (port ? *port + 2 : 1);
    packed_.store(packed, std::memory_order_relaxed);
  }
  const auto low = static_cast<std::uint32_t>(packed);
  return low == 1 ? std::nullopt : std::optional<PortIndex>(low - 2);
}

}  // namespace softhca::hca
