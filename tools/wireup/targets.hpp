// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "mad/acm.hpp"

namespace wireup::tool {

/// More targets than this are a slip of the finger.
inline constexpr std::size_t kMaxTargets = 65536;

/// "node[1-3,07-09]" as node1 node2 node3 node07 node08 node09, in this order; several brackets
/// give every combination, the last one turning fastest. A number that is written with leading
/// zeros keeps its width. Errc::InvalidArgument with the text and the place when a bracket is not
/// closed, empty, nested, holds something else than numbers and ranges, or runs backwards, and
/// when there would be more than `limit`.
[[nodiscard]] Result<std::vector<std::string>> expand_ranges(std::string_view text,
                                                             std::size_t limit = kMaxTargets);

/// Something whose path is wanted.
struct Target {
  /// As the user wrote it, expanded.
  std::string text;
  mad::AcmAddress address;
  friend bool operator==(const Target&, const Target&) noexcept = default;
};

/// How to read a target that has no "name:", "ip:", "gid:" or "lid:" in front.
enum class TargetKind : std::uint8_t { Any, Lid };

/// Reads one target: "lid:12", "gid:fe80::1", "ip:10.0.0.1", "name:node1", or the bare value. Bare
/// IPv6 notation with the link-local prefix fe80::/10 is a GID, since such an IPv6 address means
/// nothing without an interface; other addresses are IP addresses, all else a name.
/// Errc::InvalidArgument with the text and what is possible.
[[nodiscard]] Result<Target> parse_target(std::string_view text, TargetKind kind);

/// Expands and reads all words; at most kMaxTargets come of them.
[[nodiscard]] Result<std::vector<Target>> parse_targets(const std::vector<std::string>& words,
                                                        TargetKind kind);

}  // namespace wireup::tool
