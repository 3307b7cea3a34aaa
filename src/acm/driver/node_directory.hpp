// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace wireup::acm {

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

  [[nodiscard]] std::string lock_path() const { return base_ + ".lock"; }
  [[nodiscard]] std::string socket_path(std::uint64_t epoch) const;
  [[nodiscard]] std::string cache_path(std::uint64_t epoch) const;

 private:
  std::string base_;
  std::string cache_base_;
};

}  // namespace wireup::acm
