// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "acm/cache/mapping.hpp"
#include "acm/driver/node_directory.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

/// What the small shared file of a NodeLock holds.
struct NodeLockState {
  std::atomic<std::uint64_t> epoch;
  /// Nanoseconds of CLOCK_MONOTONIC, one clock for all processes of a node; 0 = never.
  std::atomic<std::int64_t> last_beat;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
/// A resolver beats four times a second (port_resolver.cpp): one that lives has beaten since then.
inline constexpr Duration kLately = std::chrono::seconds(2);

/// No epoch gets this far: the place in the lock file that tells services of this node apart.
inline constexpr std::uint64_t kServicePlace = std::uint64_t{1} << 40U;

/// Who is the node's resolver: a lock, an epoch and a heartbeat in one small shared file.
///
/// The resolver holds an open-file-description lock on the byte whose offset is the epoch, and
/// beats. When it ends or dies the lock is free and another process takes it in the same epoch.
/// When it is stopped, or a child of it still holds the descriptor, the lock stays but the beat
/// does not: then another process starts the next epoch, which has a lock of its own, and the old
/// resolver steps down when it sees that.
///
/// Where every user may read the file (Audience::Everybody), the lock itself is taken on another
/// one, `path`.owner, that its maker alone can open: who may read a file can lock it for reading,
/// and would keep the resolver out.
///
/// Move-only. epoch(), beat() and last_beat() may be called by any thread.
class NodeLock {
 public:
  /// Opens or makes the file. Errc::NoPermission when it is not to be trusted.
  [[nodiscard]] static Result<NodeLock> open(const std::string& path,
                                             Audience audience = Audience::OwnUser);

  [[nodiscard]] std::uint64_t epoch() const noexcept;
  /// Ends `epoch`, if it is still the current one, and starts the next.
  void end_epoch(std::uint64_t epoch) noexcept;

  /// What can be seen without taking part. Nothing is made.
  struct Status {
    std::uint64_t epoch = 0;
    /// Some process is the resolver.
    bool is_held = false;
    /// It is a service.
    bool is_service = false;
    /// As silence().
    Duration silence{};
  };
  /// Who may read a public lock but not its `.owner` judges by the last beat whether it is held.
  /// Errc::NotFound: no process of this user was a resolver here. Errc::NoPermission: another
  /// user's.
  [[nodiscard]] static Result<Status> status(const std::string& path, Instant now);

  /// Takes the lock of the epoch; false when another process, or another NodeLock, holds it.
  [[nodiscard]] Result<bool> try_lock(std::uint64_t epoch);
  /// Gives back what try_lock() took.
  void unlock(std::uint64_t epoch) noexcept;

  void beat(Instant now) noexcept;
  /// Time since the last beat; a very long one when there was none in this boot.
  [[nodiscard]] Duration silence(Instant now) const noexcept;

 private:
  [[nodiscard]] NodeLockState& state() const noexcept {
    return *static_cast<NodeLockState*>(mapping_.address());
  }
  [[nodiscard]] Result<bool> set_lock(short type, std::uint64_t epoch) noexcept;

  /// Of the file that is locked.
  std::string path_;
  UniqueFd fd_;
  Mapping mapping_;
};

/// The state of a NodeLock of root or of this user, to read only. Move-only; may be called by any
/// thread.
class NodeLockView {
 public:
  /// Errc::NotFound: there is none yet. Errc::NoPermission: it is not to be trusted.
  [[nodiscard]] static Result<NodeLockView> open(const std::string& path);

  [[nodiscard]] std::uint64_t epoch() const noexcept;
  /// The time of the last beat; Instant() when there was none.
  [[nodiscard]] Instant last_beat() const noexcept;
  /// As NodeLock::silence().
  [[nodiscard]] Duration silence(Instant now) const noexcept;

 private:
  [[nodiscard]] const NodeLockState& state() const noexcept {
    return *static_cast<const NodeLockState*>(mapping_.address());
  }

  Mapping mapping_;
};

}  // namespace wireup::acm
