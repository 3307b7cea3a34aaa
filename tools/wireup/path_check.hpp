// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "acm/client/cache_view.hpp"
#include "base/result.hpp"
#include "mad/path_record.hpp"

namespace wireup::tool {

// Cached paths against the SA's answers. Pure.

struct Difference {
  /// As in record_json().
  std::string_view field;
  std::string cached;
  std::string sa;
  friend bool operator==(const Difference&, const Difference&) noexcept = default;
};

/// The fields in which a cached record is not what the SA says. Selectors, which say how a value
/// was asked for, and what no packet depends on (service id, QoS class, number of paths) do not
/// count, nor does the membership bit of the P_Key.
[[nodiscard]] std::vector<Difference> differences(const mad::PathRecord& cached,
                                                  const mad::PathRecord& sa);

/// A cached path with the SA's answers for both directions.
struct CheckedPath {
  acm::CachedPath cached;
  Result<mad::PathRecord> outward;
  Result<mad::PathRecord> inward;
  /// It leads to a switch, whose own port may be slower than all others, and has no queue pair of a
  /// user: it says nothing of groups.
  bool is_switch = false;

  [[nodiscard]] std::vector<Difference> outward_differences() const;
  /// None of a path that the SA told: each end asks for its own direction.
  [[nodiscard]] std::vector<Difference> inward_differences() const;
  /// Both directions were answered, and as cached.
  [[nodiscard]] bool is_good() const;
};

enum class Trust { Yes, No, Unknown };

/// Whether paths that are made from multicast groups are the SA's on this fabric.
struct Verdict {
  Trust multicast = Trust::Unknown;
  /// What speaks against it, or why it is not known.
  std::vector<std::string> reasons;
  /// What to set; empty: nothing.
  std::string advice;
  std::size_t checked = 0;
  std::size_t wrong = 0;
  /// The SA did not answer for one direction or the other.
  std::size_t unanswered = 0;
};

/// A multicast group has one SL, and one MTU and rate for all its members, both ways: so the SA's
/// answers must not differ by destination or by direction.
[[nodiscard]] Verdict judge(const std::vector<CheckedPath>& paths);

}  // namespace wireup::tool
