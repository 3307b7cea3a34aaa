// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/result.hpp"
#include "base/rng.hpp"
#include "cm/engine/engine.hpp"
#include "conn/engine/connection.hpp"
#include "conn/engine/identity.hpp"
#include "conn/engine/types.hpp"

namespace wireup::conn {

/// The connections of one process to its peers, as a pure state machine around the CM engine: at
/// most one connection per peer, on demand, from either side or both at once. A value: copyable
/// and comparable. Not thread-safe.
///
/// How to drive it: call commands and handle_*() with a time that never goes back; after each, take
/// poll_command(), poll_transmit() and poll_event() until they return nothing, and call
/// handle_timeout() when poll_timeout() has come. Calls never re-enter; a command may be answered
/// at once or later, and answers for connections that have ended are ignored.
///
/// Crossing connects. When both sides have sent a REQ, the REQ of the smaller (job, rank) counts:
/// its sender ignores the other's, and the other abandons its own without a message and accepts
/// with the queue pair that it has made. That costs the one REQ that is ignored.
///
/// Epochs. Each REQ carries an epoch, larger than that of every earlier connection of the pair; the
/// REP settles the larger of both sides'. A REQ that does not exceed the last ready connection's is
/// a late duplicate and ignored; a larger one means that the peer has lost the connection that we
/// still have, and replaces it.
class Engine {
 public:
  Engine(const Config& config, Rng rng);

  // Commands of the user.

  /// Wants a connection by `deadline`: one Connected or Failed follows, except when it is there
  /// already. Errors: Errc::InvalidArgument (rank outside the job, deadline not in the future),
  /// Errc::Unsupported (another job), Errc::InvalidState (after close_all()).
  [[nodiscard]] Result<> connect(PeerId peer, Instant deadline, Instant now);
  /// Ends the connection, or the attempt: Disconnected follows. Errc::InvalidState without one.
  [[nodiscard]] Result<> close(PeerId peer, Instant now);
  /// Ends all of them, refuses new ones from either side.
  void close_all(Instant now);
  /// After close_all(): every peer has been told and has answered, or will not any more.
  [[nodiscard]] bool is_closed() const noexcept;

  // Answers of the driver.

  void handle_card(PeerId peer, const Result<PeerCard>& card, Instant now);
  void handle_path(ConnectionId id, const Result<Path>& path, Instant now);
  void handle_qp_created(ConnectionId id, const Result<Qpn>& qpn, Instant now);
  void handle_qp_connected(ConnectionId id, const Result<>& done, Instant now);
  /// IBV_EVENT_COMM_EST of the connection's queue pair.
  void handle_communication_established(ConnectionId id, Instant now);
  void handle_mad(const cm::Address& from, std::span<const std::uint8_t> bytes, Instant now);
  void handle_timeout(Instant now);
  /// The port's addresses have changed. Connections that are being made with the old ones fail.
  void set_port(Lid lid, std::uint8_t lmc) noexcept;

  [[nodiscard]] std::optional<Command> poll_command();
  [[nodiscard]] std::optional<cm::Transmit> poll_transmit();
  [[nodiscard]] std::optional<Event> poll_event();
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept;

  /// The ready connection to a peer; null without one. Valid until the next call.
  [[nodiscard]] const Connection* ready(PeerId peer) const noexcept;
  [[nodiscard]] const Connection* find(ConnectionId id) const noexcept;
  [[nodiscard]] std::size_t ready_count() const noexcept { return ready_count_; }
  /// Connections that are being made.
  [[nodiscard]] std::size_t pending_count() const noexcept { return pending_count_; }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  [[nodiscard]] const cm::Counters& cm_counters() const noexcept { return cm_.counters(); }
  [[nodiscard]] const Config& config() const noexcept { return config_; }

  friend bool operator==(const Engine&, const Engine&) = default;

 private:
  /// How an attempt came to nothing.
  struct Failure {
    Step step = Step::None;
    Error error;
    /// Messages sent in vain at that step.
    unsigned attempts = 0;
    /// Another attempt may succeed.
    bool may_pass = false;
  };
  using DeadlineKey = std::pair<Instant, ConnectionId>;
  using WishKey = std::pair<Instant, PeerId>;

  // Both sides (engine.cpp, connections.cpp).
  void start(PeerId id, Instant now);
  Connection& add_connection(PeerId peer, Role role, Instant deadline, Instant now);
  void erase_connection(ConnectionId id);
  void enter(Connection& connection, Phase phase);
  void count(Phase phase, std::size_t change) noexcept;
  void set_deadline(Connection& connection, std::optional<Instant> deadline);
  [[nodiscard]] Connection* live(ConnectionId id, Phase phase) noexcept;
  [[nodiscard]] Connection* owner(cm::Handle handle) noexcept;
  void bind(Connection& connection, cm::Handle handle);
  void unbind(Connection& connection);
  void request_path(Connection& connection, const Gid& dgid);
  void connect_qp(Connection& connection);
  void become_ready(Connection& connection, Instant now);
  void drain_cm(Instant now);
  void take_transmits(Connection* owner = nullptr);
  [[nodiscard]] Identity identity(std::uint32_t epoch) const noexcept;

  // Asking (active.cpp).
  void send_request(Connection& connection, Instant now);
  void on_event(const cm::RepReceived& event, Instant now);
  void on_event(const cm::Rejected& event, Instant now);
  void on_event(const cm::Failed& event, Instant now);

  // What connections of ours have no use for: a peer's patience needs no deed, and alternate paths
  // are neither loaded nor taken.
  void on_event(const cm::MraReceived&, Instant) noexcept {}
  void on_event(const cm::AlternateOffered&, Instant) noexcept {}
  void on_event(const cm::AlternateAnswered&, Instant) noexcept {}
  void on_event(const cm::AlternateFailed&, Instant) noexcept {}

  // Being asked (passive.cpp).
  void on_event(const cm::ReqReceived& event, Instant now);
  [[nodiscard]] tl::expected<RequestData, Refusal> examine(const cm::ReqReceived& event) const;
  void admit(const cm::ReqReceived& event, const RequestData& data, Instant now);
  void accept_as_new(const cm::ReqReceived& event, const RequestData& data, Instant now);
  void accept_with(Connection& connection, const cm::ReqReceived& event, const RequestData& data,
                   Instant now);
  void send_reply(Connection& connection, Instant now);
  void refuse(cm::Handle handle, Refusal refusal, std::uint32_t epoch, Instant now);
  void on_event(const cm::Established& event, Instant now);

  // Ending (closing.cpp).
  void give_up(ConnectionId id, const Failure& failure, Instant now);
  void drop_attempt(ConnectionId id, Refusal refusal, Instant now);
  void report_failure(PeerId id, const Failure& failure);
  void forget_wish(PeerId id);
  void disconnect(Connection& connection, Instant now);
  void end(Connection& connection, EndReason reason, Instant now);
  void on_event(const cm::Disconnected& event, Instant now);
  void on_event(const cm::TimewaitExit& event, Instant now);
  void expire_connection(ConnectionId id, Instant now);
  void expire_wish(PeerId id, Instant now);

  Config config_;
  Rng rng_;
  cm::Engine cm_;
  bool closing_ = false;
  std::uint64_t last_id_ = 0;
  std::size_t ready_count_ = 0;
  std::size_t pending_count_ = 0;
  std::map<PeerId, Peer> peers_;
  std::map<ConnectionId, Connection> connections_;
  std::map<cm::Handle, ConnectionId> by_handle_;
  /// By local communication id, to tell whose message is sent again.
  std::map<CommId, ConnectionId> by_comm_id_;
  std::set<DeadlineKey> deadlines_;
  std::set<WishKey> wishes_;
  std::deque<Command> commands_;
  std::deque<cm::Transmit> transmits_;
  std::deque<Event> events_;
  Counters counters_;
};

}  // namespace wireup::conn
