// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/routed_paths.hpp"

#include <algorithm>

namespace wireup::acm {

std::vector<ClientPath> routed_answer(const mad::PathRecord& path, const RoutedRecords& records) {
  std::vector<ClientPath> paths{{path_flag::kUniversal, path}};
  const auto add = [&paths](std::uint32_t flags, const std::optional<mad::PathRecord>& record) {
    if (record.has_value()) {
      paths.push_back({flags, *record});
    }
  };
  add(path_flag::kInbound | path_flag::kPrimary, records.inbound);
  add(path_flag::kUnidirectional, records.outbound);
  add(path_flag::kInboundReverse | path_flag::kPrimary, records.inbound_reverse);
  return paths;
}

std::optional<mad::PathRecord> path_with(const std::vector<ClientPath>& paths,
                                         std::uint32_t flags) noexcept {
  const auto found = std::find_if(paths.begin(), paths.end(),
                                  [flags](const ClientPath& path) { return path.flags == flags; });
  return found == paths.end() ? std::nullopt : std::optional(found->record);
}

}  // namespace wireup::acm
