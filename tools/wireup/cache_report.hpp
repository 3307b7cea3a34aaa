// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "acm/client/cache_view.hpp"

namespace wireup::tool {

// What `wireup cache` prints of a node cache. Pure.

/// Of the file and of one place in it.
struct CacheSize {
  std::size_t entries = 0;
  std::uint32_t capacity = 0;
  std::size_t file_bytes = 0;
  /// File bytes by capacity, the header's share included.
  double bytes_per_place = 0;
};
[[nodiscard]] CacheSize size_of(const acm::CacheView& view);

/// "FILE: uid 0 port GUID ... pkey ... generation 3".
[[nodiscard]] std::string cache_title(const acm::CacheView& view);
/// "12 of 16384 places, 1572928 bytes, 96.0 each".
[[nodiscard]] std::string size_line(const CacheSize& size);
/// A line for each entry, youngest first; the last one has no end.
[[nodiscard]] std::string entries_text(const acm::CacheView& view);

[[nodiscard]] nlohmann::ordered_json cache_json(const acm::CacheView& view, bool with_entries);

}  // namespace wireup::tool
