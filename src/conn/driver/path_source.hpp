// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "acm/engine/path.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "verbs/port_info.hpp"

namespace wireup::conn {

/// The end of a path request.
struct PathAnswer {
  acm::PathKey key;
  Result<acm::ResolvedPath> path;
};

/// Where the driver gets paths from. Not thread-safe; nothing blocks.
class PathSource {
 public:
  virtual ~PathSource() = default;
  /// What is known at once, without a system call.
  [[nodiscard]] virtual std::optional<acm::ResolvedPath> lookup(const acm::PathKey& key) const = 0;
  /// One PathAnswer per key follows, at `deadline` at the latest.
  [[nodiscard]] virtual Result<> request(const acm::PathKey& key, Instant deadline) = 0;
  virtual void progress(Instant now) = 0;
  [[nodiscard]] virtual std::optional<PathAnswer> poll_answer() = 0;
  /// Readable when progress() has something to do; constant for life.
  [[nodiscard]] virtual int fd() const noexcept = 0;
  [[nodiscard]] virtual std::optional<Instant> poll_timeout() const = 0;
  /// The path did not work: forget it.
  virtual void path_failed(const acm::PathKey& key) = 0;
};

struct NodePathOptions {
  PKey pkey{0xFFFF};
  /// May this process become the node's resolver?
  bool may_resolve = true;
  /// As acm::NodeClientOptions.
  std::string directory;
  std::string cache_directory = "/dev/shm";
  std::uint32_t cache_entries = 16384;
};

/// The node's cache and resolver. Errors as acm::NodeClient::open.
[[nodiscard]] Result<std::unique_ptr<PathSource>> open_node_paths(const NodePathOptions& options,
                                                                  const verbs::PortInfo& port);

}  // namespace wireup::conn
