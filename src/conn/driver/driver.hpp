// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "cm/driver/capture.hpp"
#include "cm/driver/carrier.hpp"
#include "conn/driver/options.hpp"
#include "conn/driver/path_source.hpp"
#include "conn/driver/qp_table.hpp"
#include "conn/driver/waker.hpp"
#include "conn/engine/engine.hpp"
#include "conn/engine/resolutions.hpp"
#include "pmix/driver/exchange.hpp"
#include "verbs/device.hpp"
#include "verbs/objects.hpp"

namespace wireup::conn {

/// What a driver works with; it owns them.
struct Parts {
  verbs::OpenPort port;
  std::unique_ptr<pmix::Exchange> exchange;
  std::unique_ptr<PathSource> paths;
};

/// An event with what the user needs of the driver.
struct UserEvent {
  std::variant<Connected, Failed, Disconnected, Resolved, Unresolved, PathChanged> event;
  /// Null after Failed, after Disconnected when there was no connection yet, and of paths.
  ibv_qp* qp = nullptr;
  /// Connected and Failed: the path was made from the peer's card and verified by nobody, and this
  /// is why no better one was found.
  std::optional<Error> card_path_reason = {};
};

/// What is wanted of a path besides its target; a P_Key that is not given is the context's.
struct PathOptions {
  std::optional<PKey> pkey;
  std::optional<Sl> sl;
  ServiceId service_id;
};

/// A path that is wanted for itself, with what the user needs of the port. Without
/// `resolution.path` only the resolution is filled in.
struct PathView {
  PathId id;
  Resolution resolution;
  /// Without a queue pair number.
  cm::Address to;
  Duration age{};
  std::uint8_t port = 0;
  std::uint8_t gid_index = 0;
  std::uint16_t pkey_index = 0;
  /// IBA code, of the record or of the port, whichever is smaller.
  std::uint8_t mtu = 0;
};

struct DriverCounters {
  std::uint64_t paths_cached = 0;
  std::uint64_t paths_requested = 0;
  std::uint64_t cards_requested = 0;
  /// Paths that were made from a card.
  std::uint64_t paths_from_cards = 0;
};

struct Stats {
  Counters conn;
  cm::Counters cm;
  DriverCounters driver;
  std::size_t queue_pairs = 0;
  std::size_t ready = 0;
};

/// The connections of a process on one port: the engine, with everything that touches the world.
/// All functions are thread-safe (one lock); none blocks but wait() and shutdown(). Instants are
/// those of CLOCK_MONOTONIC.
class Driver {
 public:
  /// Makes the endpoint and the shared objects, and publishes the card.
  [[nodiscard]] static Result<std::unique_ptr<Driver>> open(Parts parts, const Options& options);
  /// Ends at once whatever shutdown() has not ended.
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  [[nodiscard]] Result<> connect(const PeerId& peer, Duration timeout);
  [[nodiscard]] Result<> close(const PeerId& peer);
  /// Wants a path. Resolved at once where it is known; else Resolved or Unresolved follows by the
  /// deadline. From then on PathChanged tells when it is void. Errors: as Resolutions::resolve(),
  /// Errc::InvalidArgument (P_Key not in the port's table), and why there is none, where that is
  /// known at once.
  [[nodiscard]] Result<PathView> resolve(const PathTarget& target, const PathOptions& options,
                                         Duration timeout);
  /// Errc::NotFound, as of the two below.
  [[nodiscard]] Result<PathView> path(PathId id);
  /// The path did not work: it is void, here and for the whole node. Errc::InvalidState while it is
  /// being resolved.
  [[nodiscard]] Result<> fail_path(PathId id);
  /// The path is not wanted any more: no event follows.
  [[nodiscard]] Result<> forget_path(PathId id);
  /// One turn of everything that is due.
  [[nodiscard]] Result<> progress();
  /// True as soon as an event is there, false when `timeout` passed.
  [[nodiscard]] Result<bool> wait(Duration timeout);
  [[nodiscard]] std::optional<UserEvent> poll_event();
  /// Disconnects every peer and leaves the exchange, within `limit`. Errc::Timeout when a peer or
  /// the exchange did not answer; all is over in any case.
  [[nodiscard]] Result<> shutdown(Duration limit);

  /// Readable when progress() is to be called; with the helper thread when an event is there. Take
  /// the events that there are before sleeping on it.
  [[nodiscard]] int fd() const noexcept;
  /// When progress() must be called although fd() is silent; nothing: no need.
  [[nodiscard]] std::optional<Duration> next_timeout();

  /// The queue pair of a ready connection; null without one.
  [[nodiscard]] ibv_qp* qp(const PeerId& peer);
  [[nodiscard]] std::optional<Connection> connection(const PeerId& peer);
  [[nodiscard]] Stats stats();

  [[nodiscard]] const pmix::JobInfo& job() const noexcept { return job_; }
  [[nodiscard]] ibv_context* verbs_context() const noexcept { return parts_.port.device.raw(); }
  [[nodiscard]] ibv_pd* pd() const noexcept { return pd_.raw(); }
  [[nodiscard]] ibv_cq* send_cq() const noexcept { return send_cq_.raw(); }
  /// What carries the CM's messages and why; constant for life.
  [[nodiscard]] const std::string& carrier() const noexcept { return carrier_->reason(); }
  [[nodiscard]] ibv_cq* receive_cq() const noexcept { return receive_cq_.raw(); }

 private:
  /// Who waits for a path, and what the node's paths rested on before it was asked for.
  using PathAsker = std::variant<ConnectionId, PathId>;
  struct PathRequest {
    PathAsker asker;
    acm::CacheVersion version;
  };
  /// What a peer's card is asked for when nobody else can tell a path.
  struct CardQuestion {
    PeerId peer;
    /// 0: any.
    std::uint64_t incarnation = 0;
    Instant deadline;
    PKey pkey;
    bool is_passive = false;
  };
  /// A path that has to come from the peer's card.
  struct CardPathRequest {
    PathRequest request;
    Gid dgid;
    /// Why nobody else can tell it.
    Error why;
  };

  Driver(Parts parts, const Options& options) noexcept;
  [[nodiscard]] Result<> make_endpoint();
  [[nodiscard]] Result<> open_capture();
  [[nodiscard]] Result<> publish_card();
  [[nodiscard]] Result<> watch_all();
  [[nodiscard]] Result<> start_helper();
  void stop_helper() noexcept;
  void help();

  /// The end of `timeout` from `now` on; the end of the clock's range where it lies beyond.
  [[nodiscard]] static Instant deadline_after(Instant now, Duration timeout) noexcept {
    return timeout > Instant::max() - now ? Instant::max() : now + timeout;
  }

  // With the lock held.
  /// What the caller does after a turn, as far as it is known here.
  enum class Sleep : std::uint8_t { Unknown, Next };
  [[nodiscard]] Result<> turn(Sleep sleep = Sleep::Unknown);
  [[nodiscard]] Result<bool> look_around(Sleep sleep, Instant now);
  [[nodiscard]] Result<bool> take_datagrams(Instant now);
  bool take_cards(Instant now);
  bool take_paths(Instant now);
  void pump(Instant now);
  /// The card, or why its owner's CM cannot be reached by our carrier.
  [[nodiscard]] Result<PeerCard> of_our_carrier(const PeerId& peer,
                                                const Result<PeerCard>& card) const;
  void hand_card(const PeerId& peer, const Result<PeerCard>& card, Instant now);
  void find_path(const acm::RankQuestion& question, PathAsker asker, Instant deadline, Instant now);
  [[nodiscard]] Instant resolver_deadline(const PathAsker& asker, Instant deadline,
                                          Instant now) const;
  [[nodiscard]] std::optional<CardQuestion> card_question(const PathAsker& asker) const;
  void hand_path(const PathRequest& request, const Gid& dgid, const Result<acm::ResolvedPath>& path,
                 Instant now);
  void give_path(const PathRequest& request, const Result<acm::ResolvedPath>& path, Instant now);
  [[nodiscard]] acm::PathKey key_of(const Gid& dgid, const PathWish& wish) const;
  [[nodiscard]] Result<PathView> view(PathId id, Instant now) const;
  void follow_paths(Instant now);
  void refresh_port();
  void run(const RequestCard& command, Instant now);
  void run(const RequestPath& command, Instant now);
  [[nodiscard]] bool is_waiting_for_cards() const noexcept {
    return !card_requests_.empty() || !card_path_requests_.empty();
  }
  [[nodiscard]] std::optional<Error> take_card_path_reason(const PeerId& peer);
  void take_card_for_path(const PeerId& peer, const Result<std::vector<std::uint8_t>>& bytes,
                          Instant now);
  void run(const CreateQp& command, Instant now);
  void run(const ConnectQp& command, Instant now);
  void run(const BreakQp& command, Instant now);
  void run(const ReleaseQp& command, Instant now);
  void run(const FindPath& command, Instant now);
  void run(const CheckPath& command, Instant now);
  void deliver(const Event& event);
  void deliver(const UserEvent& event);
  void clear_signal_if_idle();
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  // Declared in the order of dependence: what comes first dies last.
  std::mutex mutex_;
  Parts parts_;
  Options options_;
  pmix::JobInfo job_;
  PKey pkey_;
  std::uint16_t pkey_index_ = 0;
  verbs::Pd pd_;
  verbs::Cq send_cq_;
  verbs::Cq receive_cq_;
  std::optional<cm::Carrier> carrier_;
  std::optional<cm::Capture> capture_;
  std::optional<QpTable> qps_;
  std::optional<Engine> engine_;
  Waker waker_;
  UniqueFd stop_;

  std::optional<Resolutions> resolutions_;
  std::multimap<acm::RankQuestion, PathRequest> path_requests_;
  /// The partitions whose paths are in use, with what those rested on at the last look.
  std::map<PKey, acm::CacheVersion> partitions_;
  std::set<PeerId> card_requests_;
  std::multimap<PeerId, CardPathRequest> card_path_requests_;
  /// Of the last connection to a peer whose path is its card's.
  std::map<PeerId, Error> card_path_reasons_;
  std::deque<UserEvent> events_;
  std::vector<ConnectionId> ended_;
  DriverCounters counters_;
  Instant last_look_{};
  Instant last_datagram_{};
  /// Threads inside wait().
  std::size_t sleepers_ = 0;
  bool is_signalled_ = false;
  /// Why the context is of no use any more.
  std::optional<Error> broken_;
  std::thread helper_;
};

}  // namespace wireup::conn
