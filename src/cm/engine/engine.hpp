// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/result.hpp"
#include "base/rng.hpp"
#include "cm/engine/alternate.hpp"
#include "cm/engine/alternate_table.hpp"
#include "cm/engine/connection_table.hpp"
#include "cm/engine/counters.hpp"
#include "cm/engine/events.hpp"
#include "cm/engine/listeners.hpp"
#include "cm/engine/outbox.hpp"
#include "cm/engine/rtt_estimator.hpp"
#include "cm/engine/sidr.hpp"
#include "cm/engine/state.hpp"
#include "cm/engine/table.hpp"
#include "cm/engine/types.hpp"
#include "mad/cm.hpp"

namespace wireup::cm {

/// The communication manager of one process: IBA's connection establishment and release (vol 1,
/// chapter 12) as a pure state machine. Bytes, commands and the time go in; bytes, events and the
/// next deadline come out. A value: copyable and comparable. Not thread-safe.
///
/// How to drive it: call commands and handle_*() with a time that never goes back; after each, take
/// poll_transmit() and poll_event() until they return nothing, and call handle_timeout() when
/// poll_timeout() has come (earlier or more often does no harm). Calls never re-enter.
///
/// An active connect is connect() - RepReceived - establish(); a passive one is ReqReceived -
/// accept() - Established. Every connection tells how it ends by exactly one of Rejected, Failed,
/// Disconnected and then, where the QP number has to rest, TimewaitExit; those that the consumer
/// ended by reject() or abandon() tell at most TimewaitExit.
///
/// When both ends connect() at once, without ConnectParams::peer_to_peer, each engine offers the
/// peer's REQ beside its own connection. The consumer decides by a rule that both share: the side
/// that wins abandons what was offered, the other abandons its own connect and accepts. The losing
/// side may use one QP for both.
///
/// Errors of commands: Errc::NotFound for a handle whose connection has ended, Errc::InvalidState
/// when the command is not allowed in its state, Errc::InvalidArgument for values that no message
/// can carry. What a peer does wrong is no error: it is counted and dropped, or answered by REJ.
class Engine {
 public:
  /// `rng` seeds communication ids, TIDs and jitter.
  Engine(const Config& config, Rng rng);

  /// Offers REQs whose service id agrees with `service_id` in the bits of `mask`. The connections
  /// that come of them follow `policy`. Twice is fine: the later policy holds.
  void listen(ServiceId service_id, const Policy& policy = {},
              std::uint64_t mask = Listeners::kWholeId);
  /// REQs for it are refused from now on; offered ones stay.
  void unlisten(ServiceId service_id, std::uint64_t mask = Listeners::kWholeId);

  /// Sends a REQ. Errors: Errc::InvalidArgument (deadline not in the future, a path code that does
  /// not fit the REQ), Errc::Busy at Config::max_connections and for a queue pair that rests in
  /// TIMEWAIT towards the same peer.
  [[nodiscard]] Result<Handle> connect(const ConnectParams& params, Instant now);
  /// Answers an offered REQ with a REP. The caller's QP shall be in RTS before: a DREQ may overtake
  /// the RTU. Errc::Stale when another connection of ours uses the peer's queue pair: abandon or
  /// reject this one. Errc::Busy for a queue pair of ours that rests towards the same peer.
  [[nodiscard]] Result<> accept(Handle handle, const AcceptParams& params, Instant now);
  /// Answers a REP with the RTU: established. At most Rtu::kPrivateSize bytes of private data.
  [[nodiscard]] Result<> establish(Handle handle, std::span<const std::uint8_t> private_data,
                                   Instant now);
  /// Refuses an offered REQ, a REP, or calls an own connect off. The handle ends, except that after
  /// accept() TIMEWAIT follows.
  [[nodiscard]] Result<> reject(Handle handle, mad::RejReason reason,
                                std::span<const std::uint8_t> ari,
                                std::span<const std::uint8_t> private_data, Instant now);
  /// Tells the peer by an MRA that accept(), establish() or answer_alternate() may take up to
  /// `service_timeout`; the offer's deadline moves accordingly.
  [[nodiscard]] Result<> delay(Handle handle, IbTimeout service_timeout,
                               std::span<const std::uint8_t> private_data, Instant now);
  /// Data of an accepted connection arrived before the RTU (IBV_EVENT_COMM_EST): established.
  /// Errc::InvalidState when it was not waiting for the RTU; then nothing is to be done.
  [[nodiscard]] Result<> notify_established(Handle handle, Instant now);
  /// Starts the release of an established connection by a DREQ.
  [[nodiscard]] Result<> disconnect(Handle handle, std::span<const std::uint8_t> private_data,
                                    Instant now);
  /// Answers the peer's DREQ by a DREP, where Policy::answers_release is false.
  [[nodiscard]] Result<> release(Handle handle, std::span<const std::uint8_t> private_data,
                                 Instant now);
  /// Proposes an alternate path of an established connection by a LAP; AlternateAnswered or
  /// AlternateFailed follows. One at a time. Errors also: Errc::InvalidArgument as connect().
  [[nodiscard]] Result<> load_alternate(Handle handle, const LapParams& params, Instant now);
  /// Answers an offered LAP by an APR.
  [[nodiscard]] Result<> answer_alternate(Handle handle, const AprParams& params, Instant now);
  /// The QP has migrated (IBV_EVENT_PATH_MIG): messages of the connection go to `to`, along the new
  /// path, from now on, and are taken from there.
  [[nodiscard]] Result<> migrated(Handle handle, const Address& to, Instant now);
  /// Where the alternate paths of a connection stand; nothing when it is not established.
  [[nodiscard]] std::optional<AlternateState> alternate_state(Handle handle) const noexcept;

  /// Offers SIDR_REQs for the service id and mask; others are answered by UnsupportedService.
  void serve(ServiceId service_id, std::uint64_t mask = Listeners::kWholeId);
  void unserve(ServiceId service_id, std::uint64_t mask = Listeners::kWholeId);
  /// Asks a peer by a SIDR_REQ which queue pair serves a service id; SidrRepReceived or SidrFailed
  /// follows. Errors: Errc::InvalidArgument (deadline not in the future), Errc::Busy at
  /// Config::max_resolutions.
  [[nodiscard]] Result<ResolutionId> resolve_service(const SidrParams& params, Instant now);
  /// Answers an offered SIDR_REQ. Errc::NotFound when it has ended (Config::offer_deadline: the
  /// peer was refused), Errc::InvalidState for a resolution of our own.
  [[nodiscard]] Result<> answer_service(ResolutionId id, const SidrAnswer& answer, Instant now);
  /// Forgets a resolution. No-op for one that has ended.
  void abandon(ResolutionId id) { sidr_.abandon(id); }
  [[nodiscard]] std::optional<SidrEvent> poll_sidr_event() { return sidr_.poll_event(); }
  /// Resolutions of both directions that are under way.
  [[nodiscard]] std::size_t resolutions() const noexcept { return sidr_.size(); }

  /// Forgets a connection without a message and without an event but TimewaitExit, which follows
  /// when it was established. No-op for a handle that has ended.
  void abandon(Handle handle, Instant now);

  /// A datagram that may be a CM message. `from` is the way back to its sender as the datagram's
  /// completion and GRH tell it; what the message says of its sender is not used for answers.
  void handle_mad(const Address& from, std::span<const std::uint8_t> bytes, Instant now);
  /// Does what is due.
  void handle_timeout(Instant now);

  /// The next datagram to send, in order. A carrier that cannot send keeps it or drops it: losses
  /// are the engine's business.
  [[nodiscard]] std::optional<Transmit> poll_transmit();
  [[nodiscard]] std::optional<Event> poll_event();
  /// When to call handle_timeout(); nothing when no timer runs.
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept;

  [[nodiscard]] const Counters& counters() const noexcept { return outbox_.counters; }
  /// State of a connection; nothing when the handle has ended.
  [[nodiscard]] std::optional<State> state(Handle handle) const noexcept;
  /// Communication ids of a connection; nothing when the handle has ended.
  [[nodiscard]] std::optional<CommIds> comm_ids(Handle handle) const noexcept;
  /// Connections in all states, TIMEWAIT included.
  [[nodiscard]] std::size_t connections() const noexcept { return table_.size(); }
  /// The measured round trip from REQ to REP, the peer's share in it included.
  [[nodiscard]] std::optional<Duration> request_round_trip() const noexcept {
    return request_rtt_.smoothed();
  }

  friend bool operator==(const Engine&, const Engine&) = default;

 private:
  // One per message (receive.cpp).
  void handle(const Address& from, const mad::Req& req, Instant now);
  void handle(const Address& from, const mad::Rep& rep, Instant now);
  void handle(const Address& from, const mad::Rtu& rtu, Instant now);
  void handle(const Address& from, const mad::Rej& rej, Instant now);
  void handle(const Address& from, const mad::Mra& mra, Instant now);
  void handle(const Address& from, const mad::Dreq& dreq, Instant now);
  void handle(const Address& from, const mad::Drep& drep, Instant now);
  void handle(const Address& from, const mad::SidrReq& req, Instant now);
  void handle(const Address& from, const mad::SidrRep& rep, Instant now);
  void handle(const Address& from, const mad::Lap& lap, Instant now);
  void handle(const Address& from, const mad::Apr& apr, Instant now);
  /// Answers Get(ClassPortInfo); false for any other datagram.
  bool handle_class_port_info(const Address& from, std::span<const std::uint8_t> bytes);
  void offer(const Address& from, const mad::Req& req, const Policy& policy, Instant now);
  void handle_duplicate(std::uint32_t index, const Address& from, const mad::Req& req, Instant now);
  /// A REQ or REP names the queue pair of `owner`, another connection. False when it was dropped
  /// because it may be late or crossing; otherwise it was answered, and the owner released if its
  /// peer has lost it.
  bool refuse_twin(std::uint32_t owner, const Address& from, const mad::Rej& answer, Instant now);
  /// A REQ that crosses our own peer-to-peer connect to the same peer: true when it was dealt with.
  bool meet_peer(const Address& from, const mad::Req& req, Instant now);
  /// Keeps what a REQ says of its sender.
  void take_offer(std::uint32_t index, const Address& from, const mad::Req& req);
  /// What the consumer has not answered yet came again: an MRA, where the policy has patience.
  bool ask_patience(std::uint32_t index, Instant now);
  void learn_reply(std::uint32_t index, const Address& from, const mad::Rep& rep, Instant now);
  /// The peer's DREQ: tells the consumer, if a cause is left to tell, and answers unless the
  /// consumer wants to.
  void take_release(std::uint32_t index, std::optional<DisconnectCause> cause,
                    const mad::Dreq& dreq, Instant now);
  void become_established(std::uint32_t index, Input input,
                          const std::array<std::uint8_t, mad::Rtu::kPrivateSize>& private_data,
                          Instant now);
  /// The connection that a message names, with its source and ids checked; nothing after having
  /// counted why not.
  [[nodiscard]] std::optional<std::uint32_t> match(const Address& from, CommId local,
                                                   CommId remote);
  [[nodiscard]] std::optional<std::uint32_t> match_rej(const Address& from, const mad::Rej& rej);

  [[nodiscard]] Result<> check_rested(const char* command, Qpn qpn, const Address& peer) const;

  // Alternate paths (alternate.cpp).
  [[nodiscard]] AlternateTable::Cell look_up(std::uint32_t index,
                                             AlternateInput input) const noexcept;
  [[nodiscard]] Result<std::uint32_t> permit(Handle handle, AlternateInput input) const noexcept;
  void enter(std::uint32_t index, AlternateState next);
  void transmit_alternate(std::uint32_t index, mad::CmKind kind, const mad::Mad& bytes);
  void resend_alternate(std::uint32_t index, Instant now);
  void send_apr(std::uint32_t index, const AprParams& params);
  [[nodiscard]] Result<> delay_alternate(Handle handle, IbTimeout service_timeout,
                                         std::span<const std::uint8_t> private_data, Instant now);
  void handle_mra_of_lap(std::uint32_t index, const mad::Mra& mra, Instant now);
  /// True when a timer of an established connection was its alternate paths' business.
  bool expire_alternate(std::uint32_t index, Instant now);

  // Shared by commands, messages and timers (transitions.cpp).
  [[nodiscard]] Cell look_up(std::uint32_t index, Input input) const noexcept;
  /// The connection of a handle when the table allows the command in its state.
  [[nodiscard]] Result<std::uint32_t> permit(Handle handle, Input input) const noexcept;
  void enter(std::uint32_t index, State next, Instant now);
  /// To TIMEWAIT, and tells the consumer if a cause is left to tell.
  void finish_release(std::uint32_t index, std::optional<DisconnectCause> cause,
                      std::span<const std::uint8_t> private_data, std::uint16_t reason,
                      Instant now);
  void give_up(std::uint32_t index, Instant now);
  void expire(std::uint32_t index, Instant now);
  void sample(RttEstimator& estimator, const Connection& connection, Instant now) noexcept;

  // Sending (send.cpp).
  /// Sends a message of the connection and keeps it for resend(); with an estimator also starts the
  /// retransmission timer.
  void transmit(std::uint32_t index, mad::CmKind kind, const mad::Mad& bytes,
                const RttEstimator* estimator, Instant now);
  void resend(std::uint32_t index, Instant now);
  void send_rej(const Address& to, const mad::Rej& rej);
  void send_dreq(std::uint32_t index, std::span<const std::uint8_t> private_data, Instant now);
  void send_drep(std::uint32_t index, std::span<const std::uint8_t> private_data,
                 bool is_retransmit);
  /// A REJ of the connection in its present state, with our identity as private data.
  [[nodiscard]] mad::Rej rej_for(std::uint32_t index, mad::RejReason reason) const noexcept;
  void start_retransmission(std::uint32_t index, Instant now);
  /// Our MRA in an exchange.
  [[nodiscard]] static mad::Mra mra_for(const Connection& connection, Tid tid, mad::MraOf message,
                                        IbTimeout service_timeout,
                                        std::span<const std::uint8_t> private_data);
  /// Gives our consumer at least as long as an MRA promised.
  static void keep_promise(Connection& connection, IbTimeout service_timeout, Instant now);
  /// The peer's MRA: waits for as long as it says before a message of this interval is repeated.
  static void be_patient(Connection& connection, const mad::Mra& mra, Duration interval,
                         Instant now);
  [[nodiscard]] Tid next_tid() noexcept;

  void drop(DropReason reason) noexcept { outbox_.drop(reason); }
  [[nodiscard]] Sidr::Context context(Instant now) noexcept {
    return {config_, rng_, outbox_, now};
  }

  Config config_;
  Rng rng_;
  ConnectionTable table_;
  Listeners services_;
  /// Peer-to-peer connects that wait for the REP, by service id.
  std::multimap<ServiceId, std::uint32_t> callers_;
  /// Of established connections that use them, by index.
  std::unordered_map<std::uint32_t, Alternate> alternates_;
  Sidr sidr_;
  RttEstimator request_rtt_;
  RttEstimator reply_rtt_;
  RttEstimator release_rtt_;
  Outbox outbox_;
  std::deque<Event> events_;
};

}  // namespace wireup::cm
