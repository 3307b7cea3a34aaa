// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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

/// Read side of the node cache: any number of readers in any number of processes, without a lock
/// or a system call. Move-only; lookup() may be called by several threads at once.
class CacheReader {
 public:
  /// Errc::NotFound: not made yet. Errc::NoPermission: not to be trusted. Errc::Malformed: not a
  /// cache of this version.
  [[nodiscard]] static Result<CacheReader> open(const std::string& path);

  /// The path stored for exactly this key. A slot being written right now counts as a miss after a
  /// bounded number of looks: its writer may have been killed. `now` gives the path's age.
  [[nodiscard]] std::optional<ResolvedPath> lookup(const PathKey& key, Instant now) const noexcept;
  [[nodiscard]] std::uint32_t generation() const noexcept;
  [[nodiscard]] std::uint32_t capacity() const noexcept { return slots_; }

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
  };
  /// Opens or makes the file, and repairs what a killed writer left half written. A file of
  /// another version or layout is replaced by a new one.
  [[nodiscard]] static Result<CacheWriter> open(const Options& options);

  /// Stores a path; the record must be of the key's SGID and DGID, a defect otherwise. When the
  /// key's window is full its oldest entry makes room.
  void store(const PathKey& key, const mad::PathRecord& record, PathOrigin origin,
             Instant now) noexcept;
  /// True when there was one.
  bool remove(const PathKey& key) noexcept;
  /// Makes every entry void; readers see it at their next lookup.
  void invalidate(const CacheBasis& basis) noexcept;

  [[nodiscard]] std::uint32_t generation() const noexcept;
  [[nodiscard]] std::uint32_t capacity() const noexcept { return slots_; }
  /// Valid entries, counted by a walk over all slots.
  [[nodiscard]] std::uint32_t size() const noexcept;
  /// Slots that open() found half written.
  [[nodiscard]] std::uint32_t repaired() const noexcept { return repaired_; }

 private:
  void repair() noexcept;

  Mapping mapping_;
  std::uint32_t slots_ = 0;
  std::uint32_t repaired_ = 0;
};

}  // namespace wireup::acm
