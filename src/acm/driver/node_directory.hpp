// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace wireup::acm {

/// Who may use what one process of a node makes: processes of its own user, or those of every user.
enum class Audience : std::uint8_t { OwnUser, Everybody };

/// Where a service that resolves for every user of the node keeps its files. Nobody but root can
/// make it.
inline constexpr const char* kPublicDirectory = "/run/wireup";

/// Names of what the processes of a node share for one port and partition: in the node's directory
/// the lock file and the resolver's socket, in the cache directory the node cache. Each epoch (see
/// NodeLock) has a socket and a cache of its own.
class NodeDirectory {
 public:
  /// Makes the directory where needed. `directory` empty: /run/wireup-<uid>, or
  /// $TMPDIR/wireup-<uid> where that cannot be made. Errc::NoPermission: it is not this user's
  /// alone (owner, mode 0700, no link). Errc::InvalidArgument: too long for a socket's address.
  [[nodiscard]] static Result<NodeDirectory> open(const std::string& directory,
                                                  const std::string& cache_directory,
                                                  Guid port_guid, PKey pkey);
  /// A directory for everybody to read in and its maker alone to write, which has the cache too: in
  /// /dev/shm others could take the cache's name first. Made where needed, with mode 0755.
  /// Errc::NoPermission: it cannot be made, or others may write there.
  [[nodiscard]] static Result<NodeDirectory> open_public(const std::string& directory,
                                                         Guid port_guid, PKey pkey);
  /// The names in a public directory, there or not: for those who read.
  [[nodiscard]] static Result<NodeDirectory> public_names(const std::string& directory,
                                                          Guid port_guid, PKey pkey);

  [[nodiscard]] Audience audience() const noexcept { return audience_; }
  [[nodiscard]] std::string lock_path() const { return base_ + ".lock"; }
  [[nodiscard]] std::string socket_path(std::uint64_t epoch) const;
  [[nodiscard]] std::string cache_path(std::uint64_t epoch) const;

 private:
  Audience audience_ = Audience::OwnUser;
  std::string base_;
  std::string cache_base_;
};

/// What the name of a cache file, without its directory, says.
struct CacheName {
  /// Whose; nothing: everybody's to read.
  std::optional<std::uint32_t> uid;
  Guid port_guid;
  std::uint16_t partition = 0;
  std::uint64_t epoch = 0;
  friend bool operator==(const CacheName&, const CacheName&) noexcept = default;
};
/// Nothing when cache_path() makes no such name.
[[nodiscard]] std::optional<CacheName> parse_cache_name(std::string_view name) noexcept;

/// What the name of a lock file, without its directory, says.
struct LockName {
  Guid port_guid;
  std::uint16_t partition = 0;
  friend bool operator==(const LockName&, const LockName&) noexcept = default;
};
/// Nothing when lock_path() makes no such name.
[[nodiscard]] std::optional<LockName> parse_lock_name(std::string_view name) noexcept;

}  // namespace wireup::acm
