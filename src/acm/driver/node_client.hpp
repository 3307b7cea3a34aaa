// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "acm/driver/ibacm_client.hpp"
#include "acm/driver/node_directory.hpp"
#include "acm/driver/source_policy.hpp"
#include "acm/engine/path.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"
#include "verbs/device.hpp"
#include "verbs/port_info.hpp"

namespace wireup::acm {

struct NodeClientOptions {
  /// Partition to resolve in.
  PKey pkey{0xFFFF};
  /// Directory of the node's lock and socket; empty = /run/wireup-<uid>, or $TMPDIR/wireup-<uid>
  /// where that cannot be made. It must be the node's own.
  std::string directory;
  /// Directory of the service that resolves for all users of the node; while one lives there, it is
  /// asked, and no rank is a resolver. Empty: none is looked for.
  std::string public_directory = kPublicDirectory;
  /// Directory of the node cache, of the node's own memory.
  std::string cache_directory = "/dev/shm";
  /// May this process become the node's resolver (its thread "wireup-acm")? Without a resolver in
  /// another process every request then fails at its deadline, or as soon as nobody resolved for
  /// 2 s.
  bool may_resolve = true;
  /// Entries of the node cache when this process makes it; rounded up to a power of two.
  std::uint32_t cache_entries = 16384;
  /// Where an ibacm, or `wireup serve`, is asked when this process is elected and may not ask the
  /// fabric itself; empty: nowhere.
  std::string ibacm_socket = kIbacmSocket;
  /// What is used when this process is elected.
  SourcePolicy sources = {};
};

/// What the paths of a node rest on. Another epoch: another resolver keeps them. Another
/// generation: all are void (0 while there is no cache). Another count of changes: some were
/// removed or became others.
struct CacheVersion {
  std::uint64_t epoch = 0;
  /// The resolver is a service for the ranks of every user.
  bool is_public = false;
  std::uint32_t generation = 0;
  std::uint64_t changes = 0;
  friend constexpr bool operator==(const CacheVersion&, const CacheVersion&) noexcept = default;
};

/// The outcome of a request().
struct Resolution {
  PathKey key;
  /// What was asked for in place of a DGID.
  std::optional<mad::AcmAddress> address;
  Result<ResolvedPath> path;
};

/// A rank's way to paths: a read of the node cache, else a question to the node's resolver. One
/// resolver serves a node, port and P_Key: the node's service, where one lives (ServiceWatch), or
/// else one of the ranks. Those of a user elect it by a file lock, and when it ends, dies or stops
/// to beat, the others elect the next. Whoever is the resolver next is asked again what was
/// pending.
///
/// One per context; not thread-safe: called by the context's progress owner only.
class NodeClient {
 public:
  /// Opens the node's directory, cache and resolver; the device and port are opened again by
  /// name when this process is elected. Does not wait for the resolver to join its groups.
  /// Errc::NoPermission: the directory or the cache belongs to another user, or the lock cannot be
  /// made. Errc::InvalidArgument: a path is too long for a socket.
  [[nodiscard]] static Result<NodeClient> open(const NodeClientOptions& options,
                                               const verbs::PortInfo& port);

  NodeClient(NodeClient&&) noexcept;
  NodeClient& operator=(NodeClient&&) noexcept;
  /// Ends the resolver when this process runs it: bounded, the others take over.
  ~NodeClient();

  /// The cached path: shared memory, no system call except the clock, no lock. A key whose SGID
  /// equals its DGID is answered from the port itself (PathOrigin::Local).
  [[nodiscard]] std::optional<ResolvedPath> lookup(const PathKey& key) const;

  /// As of now: three loads from shared memory. Read it before the lookup() whose path it is for.
  [[nodiscard]] CacheVersion version() const noexcept;

  /// Asks the resolver; duplicates merge. One Resolution per key comes by poll_resolution(), at
  /// `deadline` at the latest (of several requests for a key the latest counts), with
  /// Errc::NoSubnetManager, Errc::NoPermission or Errc::PathUnresolved and what to do.
  /// Errc::InvalidArgument when the SGID is not this port's.
  [[nodiscard]] Result<> request(const PathKey& key, Instant deadline);

  /// Asks for the port that has an address: a name, an IP address, a LID. `key` says the rest; its
  /// DGID is not read. The path of the Resolution tells the GID, by which lookup() finds it then.
  [[nodiscard]] Result<> request(const mad::AcmAddress& address, const PathKey& key,
                                 Instant deadline);

  /// An epoll descriptor, readable when progress() has something to do; constant for life.
  [[nodiscard]] int fd() const noexcept;
  /// Never blocks.
  void progress(Instant now);
  [[nodiscard]] std::optional<Resolution> poll_resolution();
  /// When progress() is to be called even if fd() stays silent.
  [[nodiscard]] std::optional<Instant> poll_timeout() const;

  /// A path did not work: the resolver forgets it, and lookups miss until it has found another.
  void path_failed(const PathKey& key);

  /// The port's LID, LMC or P_Key table has changed, as a query of it says: lookups of the port's
  /// own address follow it.
  void port_changed(const verbs::PortInfo& port);

  /// Is the node's resolver in this process?
  [[nodiscard]] bool is_resolver() const noexcept;

 private:
  struct State;
  explicit NodeClient(std::unique_ptr<State> state) noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace wireup::acm
