// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "cm/driver/ud_carrier.hpp"
#include "conn/driver/options.hpp"
#include "conn/driver/path_source.hpp"
#include "conn/driver/qp_table.hpp"
#include "conn/driver/waker.hpp"
#include "conn/engine/engine.hpp"
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
  Event event;
  /// Null after Failed, and after Disconnected when there was no connection yet.
  ibv_qp* qp = nullptr;
  /// Connected and Failed: the path was made from the peer's card and verified by nobody, and this
  /// is why no better one was found.
  std::optional<Error> card_path_reason = {};
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
  [[nodiscard]] const verbs::PortInfo& port() const noexcept { return parts_.port.info; }
  [[nodiscard]] ibv_context* verbs_context() const noexcept { return parts_.port.device.raw(); }
  [[nodiscard]] ibv_pd* pd() const noexcept { return pd_.raw(); }
  [[nodiscard]] ibv_cq* send_cq() const noexcept { return send_cq_.raw(); }
  [[nodiscard]] ibv_cq* receive_cq() const noexcept { return receive_cq_.raw(); }

 private:
  Driver(Parts parts, const Options& options) noexcept;
  [[nodiscard]] Result<> make_endpoint();
  [[nodiscard]] Result<> publish_card();
  [[nodiscard]] Result<> watch_all();
  [[nodiscard]] Result<> start_helper();
  void stop_helper() noexcept;
  void help();

  // With the lock held.
  /// What the caller does after a turn, as far as it is known here.
  enum class Sleep : std::uint8_t { Unknown, Next };
  [[nodiscard]] Result<> turn(Sleep sleep = Sleep::Unknown);
  [[nodiscard]] Result<bool> look_around(Sleep sleep, Instant now);
  [[nodiscard]] Result<bool> take_datagrams(Instant now);
  bool take_cards(Instant now);
  bool take_paths(Instant now);
  void pump(Instant now);
  void run(const RequestCard& command, Instant now);
  void run(const RequestPath& command, Instant now);
  [[nodiscard]] Instant path_deadline(const RequestPath& command, Instant now) const;
  void take_path(ConnectionId id, const acm::PathKey& key, const Result<acm::ResolvedPath>& path,
                 Instant now);
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
  void deliver(const Event& event);
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
  std::optional<cm::UdCarrier> carrier_;
  std::optional<QpTable> qps_;
  std::optional<Engine> engine_;
  Waker waker_;
  UniqueFd stop_;

  std::multimap<acm::PathKey, ConnectionId> path_requests_;
  std::set<PeerId> card_requests_;
  /// Connections whose path has to come from the peer's card.
  struct CardPathRequest {
    ConnectionId id;
    Gid dgid;
    /// Why nobody else can tell it.
    Error why;
  };
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
