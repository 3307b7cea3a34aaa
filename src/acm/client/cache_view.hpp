// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acm/cache/node_cache.hpp"
#include "acm/client/node_places.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// A node cache's file, as its name and status say.
struct CacheFile {
  std::string path;
  /// The resolver's, who alone may write it.
  uid_t uid = 0;
  /// That of a service for the ranks of every user.
  bool is_public = false;
  Guid port_guid;
  /// 15 bits.
  std::uint16_t partition = 0;
  std::uint64_t epoch = 0;
  friend bool operator==(const CacheFile&, const CacheFile&) noexcept = default;
};

/// The caches of this node that this user may trust: root's and the user's own, of each port,
/// partition and kind the one of the last epoch. Sorted.
[[nodiscard]] std::vector<CacheFile> find_caches(const NodePlaces& places);

/// A cache as it is now.
struct CacheView {
  CacheFile file;
  std::uint32_t capacity = 0;
  std::uint32_t generation = 0;
  /// Of the file.
  std::size_t bytes = 0;
  std::vector<CachedPath> entries;
};
/// Errors as CacheReader::open().
[[nodiscard]] Result<CacheView> view_cache(const CacheFile& file, Instant now);

/// The entry that has exactly this record, the youngest where there are several; nothing: none.
[[nodiscard]] std::optional<ResolvedPath> find_record(const std::vector<CacheFile>& caches,
                                                      const mad::PathRecord& record, Instant now);

}  // namespace wireup::acm
