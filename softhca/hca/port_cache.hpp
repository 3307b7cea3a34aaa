// SPDX-License-Identifier: BSD-3-Clause
// Ports and routes as the data path sees them: always those of the present fabric image, but
// copied out of it only when the image has changed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "softhca/fabric/fabric_view.hpp"

namespace softhca::hca {

/// Any thread. What port() returns stays valid and unchanged as long as the cache lives: when a
/// port changes, the old copy is kept aside (about 1 KB for each change of a port in use).
class PortCache {
 public:
  explicit PortCache(const FabricView& view) : view_(&view) {}
  PortCache(const PortCache&) = delete;
  PortCache& operator=(const PortCache&) = delete;
  ~PortCache();

  [[nodiscard]] const PortAttr& port(PortIndex index);

 private:
  struct Entry {
    PortAttr attr;
    std::atomic<std::uint64_t> generation{0};
  };

  const FabricView* view_;
  std::array<std::atomic<Entry*>, kMaxHcaPorts> entries_{};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> owned_;
  PortAttr absent_;
};

/// Where (from, dlid) leads, remembered until the image changes. One per QP or address handle,
/// always asked for the same pair. Any thread.
class RouteCache {
 public:
  RouteCache() = default;
  RouteCache(const RouteCache& other) : packed_(other.packed_.load(std::memory_order_relaxed)) {}
  RouteCache& operator=(const RouteCache& other) {
    packed_.store(other.packed_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }

  std::optional<PortIndex> resolve(const FabricView& view, PortIndex from, std::uint16_t dlid);
  void forget() { packed_.store(0, std::memory_order_relaxed); }

 private:
  // Upper half: generation of the image (its low 32 bits); lower half: port + 2, 1 for no route,
  // 0 for nothing known.
  std::atomic<std::uint64_t> packed_{0};
};

}  // namespace softhca::hca
