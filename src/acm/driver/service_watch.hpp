// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// The service that resolves for the ranks of every user of this node, as those ranks see it: is
/// one there for this port and partition, and does it live? Its files are believed only when they
/// are root's or this user's. Two resolvers of one port take each other's route away at every
/// listener of the fabric, so a rank's own resolver steps down when it sees one.
///
/// Not thread-safe: each thread has its own.
class ServiceWatch {
 public:
  /// `directory` empty: none is looked for.
  ServiceWatch(const std::string& directory, Guid port_guid, PKey pkey);

  /// Looks anew. True when one has beaten lately, and after the last leave().
  [[nodiscard]] bool is_there(Instant now);
  /// It did not answer, or is to count only from now on: it is there again when it beats again.
  void leave(Instant now) noexcept;

  /// Time since its last beat, by the file that the last is_there() found.
  [[nodiscard]] Duration silence(Instant now) const noexcept;
  /// By the same file.
  [[nodiscard]] std::uint64_t epoch() const noexcept;
  /// Only of one that is_there().
  [[nodiscard]] const NodeDirectory& names() const noexcept { return *names_; }

 private:
  std::optional<NodeDirectory> names_;
  std::optional<NodeLockView> state_;
  Instant left_at_;
};

}  // namespace wireup::acm
