// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/ids.hpp"
#include "cm/engine/types.hpp"

namespace wireup::cm {

/// The service ids that are listened on, with masks as libibcm has them: a request matches where
/// its id and the listener's agree under the mask. The most exact listener is taken. A value.
class Listeners {
 public:
  static constexpr std::uint64_t kWholeId = ~std::uint64_t{0};

  /// Replaces the policy of the same id and mask.
  void add(ServiceId id, std::uint64_t mask, const Policy& policy) {
    listeners_.insert_or_assign({~mask, id.value() & mask}, policy);
  }
  void remove(ServiceId id, std::uint64_t mask) { listeners_.erase({~mask, id.value() & mask}); }
  [[nodiscard]] bool contains(ServiceId id, std::uint64_t mask) const {
    return listeners_.contains({~mask, id.value() & mask});
  }
  /// The policy of the listener that a request for `id` belongs to. Whole ids come first.
  [[nodiscard]] std::optional<Policy> find(ServiceId id) const {
    if (const auto exact = listeners_.find({0, id.value()}); exact != listeners_.end()) {
      return exact->second;
    }
    for (auto at = listeners_.upper_bound({0, kWholeId}); at != listeners_.end(); ++at) {
      if ((id.value() & ~at->first.first) == at->first.second) {
        return at->second;
      }
    }
    return std::nullopt;
  }
  friend bool operator==(const Listeners&, const Listeners&) noexcept = default;

 private:
  /// Keyed by the bits that do not matter, then the id: exact ones first.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Policy> listeners_;
};

}  // namespace wireup::cm
