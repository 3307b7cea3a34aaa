// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace wireup::acm
