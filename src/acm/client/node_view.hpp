// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace wireup::acm {

// What a process can see of its node without taking part. Nothing is made or taken.

/// A port and partition that somebody of the node resolves, or did.
struct LockView {
  /// The lock file, its owner and what its name says.
  std::string path;
  uid_t uid = 0;
  Guid port_guid;
  std::uint16_t partition = 0;
  /// Some process is the resolver now, and it is a service.
  bool is_held = false;
  bool is_service = false;
  /// Since its last sign of life.
  Duration silence{};
};

/// The locks in a runtime directory. One that cannot be read is left out; so are all of a directory
/// that is another user's.
[[nodiscard]] std::vector<LockView> find_locks(const std::string& directory, Instant now);

/// Every runtime directory of this node that this user can look into: /run/wireup*,
/// $TMPDIR/wireup-* (or /tmp), and `named` when it is not empty.
[[nodiscard]] std::vector<std::string> runtime_directories(const std::string& named);

/// What a resolver may need and this process has.
struct Privileges {
  uid_t uid = 0;
  bool has_net_raw = false;
  bool has_ipc_lock = false;
  /// Bytes; nothing: unlimited.
  std::optional<std::uint64_t> memlock_limit;
};
[[nodiscard]] Privileges privileges_of_this_process();

/// /run/ibacm.port: the file that sends librdmacm to a TCP port before it looks at any socket.
struct PortFile {
  std::string path;
  std::uint16_t tcp_port = 0;
  /// Something listens there.
  bool is_answered = false;
};
/// Nothing: there is no such file, or no port in it.
[[nodiscard]] std::optional<PortFile> find_port_file(const std::string& path = "/run/ibacm.port");

/// Whether a library can be loaded.
[[nodiscard]] bool has_library(const char* name);

}  // namespace wireup::acm
