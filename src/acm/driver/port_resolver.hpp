// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acm/cache/node_cache.hpp"
#include "acm/driver/acm_port.hpp"
#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "acm/driver/preloads.hpp"
#include "acm/driver/rank_server.hpp"
#include "base/error.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

struct PortResolverOptions {
  NodeDirectory directory;
  /// The epoch whose lock is held.
  std::uint64_t epoch = 0;
  std::string device;
  std::uint8_t port = 1;
  PKey pkey{0xFFFF};
  std::uint32_t cache_entries = 16384;
  Config engine;
  /// Names and IP addresses to answer for, besides the port's GID and LIDs.
  std::vector<mad::AcmAddress> locals;
  /// Read whenever the port is opened or gets another LID.
  PreloadFiles preloads;
};

/// The node's resolver for one port and partition, without a thread: it answers the node's ranks on
/// their socket, the fabric by ACM, and whoever runs it by ask(), and writes the node cache. The
/// port may be away: it is opened again each second, and until then everybody is told why.
///
/// Held by the holder of the node lock. Not thread-safe; never blocks.
class PortResolver {
 public:
  /// Listens at the ranks' socket; the port is opened by progress(). `lock` must outlive this.
  [[nodiscard]] static Result<std::unique_ptr<PortResolver>> open(
      const PortResolverOptions& options, NodeLock& lock, Instant now);
  /// Takes the ranks' socket away, so that they notice.
  ~PortResolver();
  PortResolver(const PortResolver&) = delete;
  PortResolver& operator=(const PortResolver&) = delete;

  /// Readable when progress() has something to do.
  [[nodiscard]] int fd() const noexcept { return epoll_.value(); }
  /// False: another epoch began, and this resolver must end.
  [[nodiscard]] bool progress(Instant now);
  /// When progress() is to be called even if fd() stays silent.
  [[nodiscard]] Instant poll_timeout() const;

  using AskId = std::uint64_t;
  struct Answer {
    AskId id = 0;
    Result<ResolvedPath> path;
  };
  /// Resolves an address by what is preloaded or else by ACM; one Answer with `id` follows, at
  /// `deadline` at the latest.
  void ask(AskId id, const mad::AcmAddress& address, Instant deadline, Instant now);
  /// Asks the SA for this record with this component mask; one Answer with `id` follows.
  void ask_sa(AskId id, const mad::PathRecord& record, std::uint64_t component_mask, Instant now);
  [[nodiscard]] std::optional<Answer> poll_answer();
  /// The path known now, without asking anybody.
  [[nodiscard]] std::optional<ResolvedPath> known(const mad::AcmAddress& address) const;
  [[nodiscard]] const Preloads& preloads() const noexcept { return preloads_; }

  /// nullptr while there is none; fault() says why.
  [[nodiscard]] const AcmPort* port() const noexcept { return port_.get(); }
  [[nodiscard]] const Error& fault() const noexcept { return fault_; }
  [[nodiscard]] const PortResolverOptions& options() const noexcept { return options_; }

 private:
  struct Waiter {
    RankServer::RankId rank = 0;
    RankQuestion question;
    friend bool operator==(const Waiter&, const Waiter&) noexcept = default;
  };

  PortResolver(const PortResolverOptions& options, NodeLock& lock, RankServer server,
               UniqueFd epoll) noexcept;
  void open_port(Instant now);
  void read_preloads(Instant now);
  [[nodiscard]] Result<> open_cache();
  void handle_requests(Instant now);
  void handle_resolve(const RankServer::Request& request, Instant now);
  void forget_gone();
  void handle_events(Instant now);
  void handle_learned(const PathLearned& learned, Instant now);
  void answer_rank(const Waiter& waiter, const ResolvedPath& path, Instant now);
  void ask_for_sl(const Waiter& waiter, const Gid& dgid, Instant now);
  void handle_sa_answer(const AcmPort::SaAnswer& answer, Instant now);
  void tell_ranks(const PathLearned& learned, Instant now);
  void handle_unresolved(const PathUnresolved& unresolved);
  void answer_asks(const mad::AcmAddress& address, const Result<ResolvedPath>& path);
  /// What the fabric is asked for: a name that a file gives a GID by that GID, since its port need
  /// not know the name.
  [[nodiscard]] mad::AcmAddress target_of(const mad::AcmAddress& address) const;
  [[nodiscard]] PathKey plain_key(const Gid& dgid) const noexcept;
  [[nodiscard]] CacheBasis basis() const noexcept;

  PortResolverOptions options_;
  NodeLock& lock_;
  RankServer server_;
  UniqueFd epoll_;
  std::unique_ptr<AcmPort> port_;
  std::optional<CacheWriter> cache_;
  Preloads preloads_;
  /// Another resolver wrote the cache until a moment ago.
  bool keep_cache_ = false;
  /// Why there is no port; the answer to every request.
  Error fault_{Errc::NoDevice};
  Instant next_open_;
  Instant next_beat_;
  std::map<mad::AcmAddress, std::vector<Waiter>> waiters_;
  std::map<mad::AcmAddress, std::vector<AskId>> asks_;
  /// Queries to the SA, by the port's ids.
  std::map<std::uint32_t, AskId> sa_asks_;
  /// Ranks that demand an SL, by the port's ids of the queries for them.
  std::map<std::uint32_t, Waiter> sl_waiters_;
  std::deque<Answer> answers_;
};

}  // namespace wireup::acm
