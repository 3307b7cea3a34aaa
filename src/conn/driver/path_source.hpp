// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "acm/driver/node_client.hpp"
#include "acm/driver/service_message.hpp"
#include "acm/engine/path.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "conn/engine/resolutions.hpp"
#include "verbs/port_info.hpp"

namespace wireup::conn {

/// The end of a path request, as it was asked.
struct PathAnswer {
  acm::RankQuestion question;
  Result<acm::ResolvedPath> path;
};

/// Where the driver gets paths from. Not thread-safe; nothing blocks.
class PathSource {
 public:
  virtual ~PathSource() = default;
  /// What is known at once, without a system call.
  [[nodiscard]] virtual std::optional<acm::ResolvedPath> lookup(const acm::PathKey& key) const = 0;
  /// What the paths of a partition rest on now; cheap. All zero for one that was never asked for.
  [[nodiscard]] virtual acm::CacheVersion version(PKey pkey) const = 0;
  /// One PathAnswer per question follows, at `deadline` at the latest. An address takes the place
  /// of the key's DGID.
  [[nodiscard]] virtual Result<> request(const acm::RankQuestion& question, Instant deadline) = 0;
  virtual void progress(Instant now) = 0;
  [[nodiscard]] virtual std::optional<PathAnswer> poll_answer() = 0;
  /// Readable when progress() has something to do; constant for life.
  [[nodiscard]] virtual int fd() const noexcept = 0;
  [[nodiscard]] virtual std::optional<Instant> poll_timeout() const = 0;
  /// The path did not work: forget it.
  virtual void path_failed(const acm::PathKey& key) = 0;
  /// The port has other addresses or P_Keys now.
  virtual void port_changed(const verbs::PortInfo& port) = 0;
};

/// What a path of this generation rests on. One number stands for resolver and generation.
[[nodiscard]] inline PathVersion to_path_version(const acm::CacheVersion& version,
                                                 std::uint32_t generation) noexcept {
  return {generation != 0 ? version.epoch << 32U | generation : 0, version.changes};
}

struct NodePathOptions {
  /// The partition that is asked for; others are opened when they are.
  PKey pkey{0xFFFF};
  /// May this process become the node's resolver?
  bool may_resolve = true;
  /// As acm::NodeClientOptions.
  std::string directory;
  std::string cache_directory = "/dev/shm";
  std::uint32_t cache_entries = 16384;
  std::string ibacm_socket = acm::kIbacmSocket;
  acm::SourcePolicy sources;
};

/// The node's caches and resolvers, one of each for a partition. Errors as acm::NodeClient::open.
[[nodiscard]] Result<std::unique_ptr<PathSource>> open_node_paths(const NodePathOptions& options,
                                                                  const verbs::PortInfo& port);

}  // namespace wireup::conn
