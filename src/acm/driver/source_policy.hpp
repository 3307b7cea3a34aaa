// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "acm/engine/config.hpp"
#include "acm/engine/path.hpp"

namespace wireup::acm {

/// Which sources of paths a node uses, and which it asks first. A value type.
struct SourcePolicy {
  /// Sources that are not in it are not used. Of two that can tell the same path the earlier one is
  /// asked; preloaded paths are always the first, and the card is the last. Empty: all, in the
  /// order of ADR 9.
  std::vector<PathOrigin> order;
  /// Is the SA asked for all paths at once?
  BulkPaths bulk = BulkPaths::Auto;

  [[nodiscard]] bool uses(PathOrigin source) const noexcept;
  /// The order says so: `source` is in it, and `other` comes later or not at all.
  [[nodiscard]] bool prefers(PathOrigin source, PathOrigin other) const noexcept;
  /// Can anything be learned by asking the fabric itself?
  [[nodiscard]] bool uses_fabric() const noexcept;

  friend bool operator==(const SourcePolicy&, const SourcePolicy&) noexcept = default;
};

/// The policy by the names of settings: sources as origin_name() has them, others are left out;
/// `bulk` is "auto", "always" or "never", and "auto" where it is none of them.
[[nodiscard]] SourcePolicy policy_of(std::span<const std::string> sources, std::string_view bulk);

/// The engine's part of it. A dump of OpenSM (`has_dump`) is a table of all paths already.
[[nodiscard]] Config with_policy(Config engine, const SourcePolicy& policy, bool has_dump) noexcept;

}  // namespace wireup::acm
