// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "acm/cache/layout.hpp"
#include "acm/cache/mapping.hpp"
#include "acm/engine/path.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

/// What the paths of a cache depend on. Another boot, port address or subnet manager makes them
/// void.
struct CacheBasis {
  Gid port_gid;
  Lid port_lid;
  Lid sm_lid;
  [[nodiscard]] std::uint64_t hash() const noexcept;
};

/// An entry of the cache.
struct CachedPath {
  PathKey key;
  ResolvedPath path;
};

/// How large a cache is and how full.
struct CacheSize {
  /// Of the file.
  std::size_t bytes = 0;
  /// Slots: the bound of `entries`.
  std::uint32_t capacity = 0;
  /// Valid ones.
  std::uint32_t entries = 0;
  std::uint32_t generation = 0;
};

/// Read side of the node cache: any number of readers in any number of processes, without a lock
/// or a system call. Move-only; all calls may be made by several threads at once.
class CacheReader {
 public:
  /// Errc::NotFound: not made yet. Errc::NoPermission: not to be trusted. Errc::Malformed: not a
  /// cache of this version.
  [[nodiscard]] static Result<CacheReader> open(const std::string& path);

  /// The path stored for exactly this key. A slot being written right now counts as a miss after a
  /// bounded number of looks: its writer may have been killed. `now` gives the path's age.
  ///
  /// Of an inbound path only what differs from the outbound one of its number is stored; else it is
  /// that one reversed, if it says that it is reversible.
  [[nodiscard]] std::optional<ResolvedPath> lookup(const PathKey& key, Instant now) const noexcept;
  /// All paths of the key's peer in its direction, for its partition, SL and service, by number;
  /// the key's own number does not matter.
  [[nodiscard]] std::vector<CachedPath> paths(const PathKey& key, Instant now) const;

  /// Paths of another generation are void: one load tells whether a path that was looked up before
  /// still counts, unless it alone was removed.
  [[nodiscard]] std::uint32_t generation() const noexcept;
  /// Read it before a lookup: while it and the generation stay the same, so does every path that
  /// was found, but for those that made room for others.
  [[nodiscard]] std::uint64_t changes() const noexcept;
  [[nodiscard]] std::uint32_t capacity() const noexcept { return slots_; }
  /// Counted by a walk over all slots.
  [[nodiscard]] CacheSize size() const noexcept;
  /// All valid entries, by a walk over all slots; one that is being written is left out.
  [[nodiscard]] std::vector<CachedPath> entries(Instant now) const;

 private:
  Mapping mapping_;
  std::uint32_t slots_ = 0;
};

/// Write side. One writer at a time: the holder of the node lock; open() does not check that.
class CacheWriter {
 public:
  struct Options {
    std::string path;
    /// Slots of a new file, rounded up to a power of two within kMinCacheSlots and kMaxCacheSlots.
    std::uint32_t slots = 16384;
    CacheBasis basis;
    /// Keep what a former writer stored, where its basis is the same; else start anew.
    bool keep = false;
    /// For readers of every user, not of this one only.
    bool is_public = false;
    /// Generation that a new file begins with, not 0: so that paths of a former file are not taken
    /// for paths of this one.
    std::uint32_t first_generation = 1;
  };
  /// Opens or makes the file, and repairs what a killed writer left half written. A file of
  /// another version or layout is replaced by a new one.
  [[nodiscard]] static Result<CacheWriter> open(const Options& options);

  /// Stores a path; the record must lead from the key's SGID to its DGID, of an inbound path back,
  /// a defect otherwise. When the key's window is full its oldest entry makes room.
  void store(const PathKey& key, const mad::PathRecord& record, PathOrigin origin,
             Instant now) noexcept;
  /// Stores all paths of the key's peer in its direction, and removes what was there beyond them.
  /// The numbers follow from the LIDs (DLID, then SLID, ascending), not from the order given; above
  /// kMaxPathsPerPeer they are left out. The key's own number does not matter.
  void store_paths(const PathKey& key, std::span<const mad::PathRecord> records, PathOrigin origin,
                   Instant now);
  /// True when there was one.
  bool remove(const PathKey& key) noexcept;
  /// Removes all paths of the key's peer for its partition, SL and service, in both directions.
  void remove_paths(const PathKey& key) noexcept;
  /// As CacheReader::lookup().
  [[nodiscard]] std::optional<ResolvedPath> lookup(const PathKey& key, Instant now) const noexcept;
  /// Makes every entry void; readers see it at their next lookup.
  void invalidate(const CacheBasis& basis) noexcept;

  [[nodiscard]] std::uint32_t generation() const noexcept;
  [[nodiscard]] std::uint32_t capacity() const noexcept { return slots_; }
  /// A path from this node to a LID, of this origin: by a walk over all slots.
  [[nodiscard]] std::optional<ResolvedPath> find_lid(Lid dlid, PathOrigin origin,
                                                     Instant now) const noexcept;
  /// Counted by a walk over all slots.
  [[nodiscard]] CacheSize size() const noexcept;
  /// Slots that open() found half written.
  [[nodiscard]] std::uint32_t repaired() const noexcept { return repaired_; }

 private:
  void repair() noexcept;

  Mapping mapping_;
  std::uint32_t slots_ = 0;
  std::uint32_t repaired_ = 0;
};

}  // namespace wireup::acm
