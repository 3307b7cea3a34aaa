// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "acm/cache/node_cache.hpp"
#include "acm/driver/acm_port.hpp"
#include "acm/driver/endpoint_identity.hpp"
#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "acm/driver/preloads.hpp"
#include "acm/driver/rank_server.hpp"
#include "acm/driver/source_policy.hpp"
#include "acm/driver/unprivileged_port.hpp"
#include "acm/driver/user_shares.hpp"
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
  /// The socket of an ibacm, or of `wireup serve`, that is asked where this process may not ask the
  /// fabric itself; empty: none. The service itself must not name its own.
  std::string ibacm_socket = {};
  /// What is used of all these. Config::route_protocol counts where it has no order, and
  /// Config::bulk_paths not at all.
  SourcePolicy sources = {};
  /// Look for names and IP addresses where no ACM is needed (EndpointIdentity) before asking by
  /// ACM, not after its silence.
  bool identify_first = false;
  /// Bounds of the ranks' socket. Whose ranks it is for the directory says.
  RankServerLimits ranks{};
  /// The port is opened this long after the first beat, and nobody is answered until then: so the
  /// ranks whose resolvers step down for this one have done so.
  Duration open_delay{};
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
    /// Who said which port it is.
    IdentitySource identified_by = IdentitySource::Itself;
  };
  /// Resolves an address by what is preloaded or else by ACM, and where that stays silent for half
  /// of the time, by who else may know the port, and the SA; one Answer with `id` follows, at
  /// `deadline` at the latest.
  void ask(AskId id, const mad::AcmAddress& address, Instant deadline, Instant now);
  /// Asks the SA for this record with this component mask; one Answer with `id` follows.
  void ask_sa(AskId id, const mad::PathRecord& record, std::uint64_t component_mask, Instant now);
  /// The names and IP addresses answered for changed.
  void set_locals(const std::vector<mad::AcmAddress>& locals, Instant now);
  /// This address is another port's now, or nobody's: what is known of it is void.
  void forget(const mad::AcmAddress& address);
  [[nodiscard]] std::optional<Answer> poll_answer();
  /// A name or IP address of a port that runs no ACM, when it is found.
  struct Identified {
    mad::AcmAddress address;
    EndpointIdentity::Identity identity;
  };
  [[nodiscard]] std::optional<Identified> poll_identified();
  /// The path known now, without asking anybody.
  [[nodiscard]] std::optional<ResolvedPath> known(const mad::AcmAddress& address) const;
  [[nodiscard]] const Preloads& preloads() const noexcept { return preloads_; }

  /// nullptr while there is none, or its paths are borrowed; fault() says why.
  [[nodiscard]] const AcmPort* port() const noexcept { return port_.get(); }
  [[nodiscard]] const Error& fault() const noexcept { return fault_; }
  /// Others of the node tell the paths, since this process may not ask for them.
  [[nodiscard]] bool is_borrowing() const noexcept { return borrowed_ != nullptr; }
  /// It waits for the delay that it was opened with.
  [[nodiscard]] bool is_starting() const noexcept { return !is_open_to_ranks_; }
  [[nodiscard]] const PortResolverOptions& options() const noexcept { return options_; }

 private:
  struct Waiter {
    RankServer::RankId rank = 0;
    RankQuestion question;
    Instant deadline;
  };
  /// One question of whoever runs this, or of a rank.
  struct Ask {
    std::variant<AskId, Waiter> who;
    /// As it was asked for.
    mad::AcmAddress address;
    Instant deadline;
    IdentitySource identified_by = IdentitySource::Itself;
    /// Why those who were asked so far did not do.
    Error silence{Errc::PathUnresolved};
    /// Others were asked who it is.
    bool is_looked_for = false;
  };

  PortResolver(const PortResolverOptions& options, NodeLock& lock, RankServer server,
               UniqueFd epoll) noexcept;
  void open_port(Instant now);
  void read_preloads(Instant now);
  [[nodiscard]] std::optional<ResolvedPath> preloaded(const mad::AcmAddress& address) const;
  [[nodiscard]] Result<> open_cache();
  [[nodiscard]] bool prefers_ibacm() const noexcept;
  void handle_requests(Instant now);
  void handle_resolve(const RankServer::Request& request, Instant now);
  void flush(Instant now);
  void forget_gone();
  void handle_events(Instant now);
  void handle_learned(const PathLearned& learned, Instant now);
  void answer_rank(const Waiter& waiter, const ResolvedPath& path, Instant now);
  void ask_for_sl(const Waiter& waiter, const Gid& dgid, Instant now);
  void handle_sa_answer(const AcmPort::SaAnswer& answer, Instant now);
  void handle_unresolved(const PathUnresolved& unresolved, Instant now);
  void answer_asks(const mad::AcmAddress& address, const Result<ResolvedPath>& path, Instant now);
  void start(const Ask& ask, Instant now);
  void ask_acm(const Ask& ask, Instant deadline, Instant now);
  void finish(const Ask& ask, const Result<ResolvedPath>& path, Instant now);

  // Ports that are silent (port_resolver_identity.cpp).
  void identify(const Ask& ask, Instant now);
  void handle_identity(Instant now);
  void handle_tables(Instant now);
  void take_table(EndpointIdentity::Table table, const Result<umad::SaRecord>& answer, Instant now);
  void ask_route(const Ask& ask, const mad::AcmAddress& target, Instant now);
  void take_route(const mad::AcmAddress& target, const Result<ResolvedPath>& path, Instant now);
  /// True: ACM need not be waited for again.
  bool ask_silent(const Ask& ask, Instant now);
  void remember_silent(const Ask& ask, const mad::AcmAddress& target, const Gid& gid, Instant now);
  void forget_silent(const Gid& gid);
  void expire_asks(Instant now);

  // Through others' privileges (port_resolver_borrowed.cpp).
  using BorrowedTarget = std::variant<PathKey, mad::AcmAddress>;
  struct Borrowed {
    std::vector<Ask> asks;
    BorrowedTarget target;
  };
  void borrow(const Error& lacks, Instant now);
  void stop_borrowing(Instant now);
  void ask_borrowed(const Ask& ask, const BorrowedTarget& target, Instant deadline, Instant now);
  void handle_borrowed(Instant now);
  void take_borrowed(const Borrowed& question, const Result<ResolvedPath>& path, Instant now);
  /// What the fabric is asked for: a name that a file gives a GID by that GID, since its port need
  /// not know the name.
  [[nodiscard]] mad::AcmAddress target_of(const mad::AcmAddress& address) const;
  /// A path that was told just now; only with a cache.
  [[nodiscard]] ResolvedPath fresh(const mad::PathRecord& record, PathOrigin origin) const noexcept;
  [[nodiscard]] PathKey plain_key(const Gid& dgid) const noexcept;
  [[nodiscard]] CacheBasis basis() const noexcept;
  // One of the two ports must be there.
  [[nodiscard]] bool has_port() const noexcept { return port_ != nullptr || borrowed_ != nullptr; }
  [[nodiscard]] const verbs::PortInfo& info() const noexcept;
  [[nodiscard]] PKey pkey() const noexcept;

  PortResolverOptions options_;
  NodeLock& lock_;
  RankServer server_;
  UniqueFd epoll_;
  std::unique_ptr<AcmPort> port_;
  /// In port_'s place where this process may not open it.
  std::unique_ptr<UnprivilegedPort> borrowed_;
  UnprivilegedPort::QuestionId next_borrowed_ = 1;
  std::map<UnprivilegedPort::QuestionId, Borrowed> borrowed_questions_;
  std::map<BorrowedTarget, UnprivilegedPort::QuestionId> borrowed_targets_;
  std::optional<CacheWriter> cache_;
  Preloads preloads_;
  /// Another resolver wrote the cache until a moment ago.
  bool keep_cache_ = false;
  /// Why there is no port; the answer to every request.
  Error fault_{Errc::NoDevice};
  Instant open_after_;
  /// Their socket is watched.
  bool is_open_to_ranks_ = false;
  Instant next_open_;
  Instant next_beat_;
  UserRate failure_reports_;
  /// By what ACM is asked for.
  std::map<mad::AcmAddress, std::vector<Ask>> asks_;
  EndpointIdentity identity_;
  /// Tables of the subnet in flight, by the port's ids.
  std::map<std::uint32_t, EndpointIdentity::Table> tables_;
  /// By the address that nobody has identified yet.
  std::map<mad::AcmAddress, std::vector<Ask>> unidentified_;
  /// By the GID or LID that the SA is asked for, and those by the port's ids.
  std::map<mad::AcmAddress, std::vector<Ask>> routed_;
  std::map<std::uint32_t, mad::AcmAddress> route_queries_;
  /// Addresses whose ports are silent and have a path all the same.
  struct Silent {
    mad::AcmAddress target;
    IdentitySource identified_by = IdentitySource::Itself;
    Instant until;
  };
  std::map<mad::AcmAddress, Silent> silent_;
  std::deque<Identified> news_;
  /// Queries to the SA, by the port's ids.
  std::map<std::uint32_t, AskId> sa_asks_;
  /// Ranks that demand an SL, by the port's ids of the queries for them.
  std::map<std::uint32_t, Waiter> sl_waiters_;
  std::deque<Answer> answers_;
};

}  // namespace wireup::acm
