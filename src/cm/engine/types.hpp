// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bounded_bytes.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"
#include "mad/cm.hpp"
#include "mad/header.hpp"
#include "mad/path_record.hpp"

namespace wireup::cm {

/// Where a CM message goes to, or how to answer the one that came. A carrier turns it into an
/// address handle; ids are in host byte order. The fields after has_grh count only with it.
struct Address {
  /// The carrier's own P_Key.
  static constexpr std::uint16_t kCarriersPKey = 0xFFFF;
  /// For answers: the largest, since the GRH's own limit was counted down on the way here.
  static constexpr std::uint8_t kAnswerHopLimit = 0xFF;

  Lid dlid;
  /// Over QP1: where the port's table has the P_Key that a message came with and is answered with.
  /// A UD queue pair has one P_Key.
  std::uint16_t pkey_index = kCarriersPKey;
  Qpn qpn;
  Sl sl;
  /// IBA rate code; 0 = the port's own.
  std::uint8_t static_rate = 0;
  std::uint8_t path_bits = 0;
  bool has_grh = false;
  Gid dgid;
  FlowLabel flow_label;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  friend constexpr bool operator==(const Address&, const Address&) noexcept = default;
};

/// Whether a message that came from `from` can be the peer's at `peer`: the same queue pair behind
/// the same port. With a GRH on both the GID names the port, for the LID may be a router's, which
/// many peers share, none (RoCE), or a new one of the same port; otherwise the LID does.
[[nodiscard]] constexpr bool is_same_source(const Address& peer, const Address& from) noexcept {
  const bool both_name_gids = peer.has_grh && from.has_grh;
  return peer.qpn == from.qpn && (both_name_gids ? peer.dgid == from.dgid : peer.dlid == from.dlid);
}

/// Names a connection of one engine. A handle outlives its connection safely: the generation of a
/// slot changes with every use.
struct Handle {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  friend constexpr auto operator<=>(const Handle&, const Handle&) noexcept = default;
};

/// A connection as its messages name it; the peer's is zero while it is not known.
struct CommIds {
  CommId local;
  CommId remote;
  friend constexpr bool operator==(const CommIds&, const CommIds&) noexcept = default;
};

/// How the timers of a connection run.
enum class Timers : std::uint8_t {
  /// From measured round trips, doubling with jitter; the deadline of the call ends it.
  Adaptive,
  /// As the messages say (IBTA vol 1, 12.9.8): a REQ is repeated after twice the packet lifetime
  /// and the remote CM response timeout, a REP after the local CM response timeout of the REQ, a
  /// DREQ like the message before it; always the same interval, as often as the maximum of CM
  /// retries says.
  Iba,
};

/// What differs between the users of an engine; of a connect in its parameters, of an offer from
/// the service that it came for.
struct Policy {
  Timers timers = Timers::Adaptive;
  /// A DREQ is answered at once. When false, Engine::release() answers, or the engine itself after
  /// Config::disconnect_deadline.
  bool answers_release = true;
  /// LAPs are offered to the consumer. When false the engine answers that it knows none.
  bool takes_alternate_paths = false;
  /// When not 0: a repeated REQ or REP that the consumer has not answered yet is answered by an MRA
  /// with this service timeout.
  IbTimeout patience{0};
  friend constexpr bool operator==(const Policy&, const Policy&) noexcept = default;
};

/// What an engine is told once.
struct Config {
  /// First retransmission while no round trip has been measured.
  Duration initial_rto = std::chrono::milliseconds(500);
  /// Bounds of the retransmission interval, measured or backed off.
  Duration min_rto = std::chrono::milliseconds(100);
  Duration max_rto = std::chrono::seconds(8);
  /// Every interval is spread by this to either side.
  unsigned jitter_percent = 20;
  /// How long an offered REQ waits for accept() or reject() before it is refused.
  Duration offer_deadline = std::chrono::seconds(60);
  /// How long an accepted connection waits for the RTU when accept() was given no deadline.
  Duration rtu_deadline = std::chrono::seconds(60);
  /// How long DREQ is repeated; the connection ends then without an answer.
  Duration disconnect_deadline = std::chrono::seconds(10);
  /// TIMEWAIT; when absent, IBA's: twice the packet lifetime and the ACK delay, as the REQ's local
  /// ACK timeout has them.
  std::optional<Duration> timewait;
  /// Bound of TIMEWAIT when it follows what a peer's REQ says.
  Duration max_timewait = std::chrono::seconds(60);
  /// A REQ that names the queue pair of a connection established more recently than this is taken
  /// for a late or crossing message of the same peer and dropped, not for a restarted peer.
  Duration stale_guard = std::chrono::seconds(1);
  /// ACK delay of the local channel adapter (a part of the QPs' ACK timeouts).
  IbTimeout ca_ack_delay{15};
  /// Advertised in REQs as both CM response timeouts. Between engines of ours they inform only;
  /// the adaptive timers rule.
  IbTimeout cm_response_timeout{20};
  /// Connections in every state, TIMEWAIT and not yet accepted ones included.
  std::size_t max_connections = 1U << 20U;
  /// Service id resolutions of both directions that are under way.
  std::size_t max_resolutions = 1U << 16U;
  /// Private data of the messages that the engine sends by itself (DREP, and REJ or DREQ for stale
  /// or timed-out connections): who we are.
  BoundedBytes<64> identity;
  friend bool operator==(const Config&, const Config&) noexcept = default;
};

/// For Engine::connect().
struct ConnectParams {
  Address to;
  ServiceId service_id;
  Guid local_ca_guid;
  /// Our queue pair. One that rests towards the same peer (TIMEWAIT) is refused.
  Qpn qpn;
  /// What the peer shall send first: our rq_psn.
  Psn starting_psn;
  /// The path of the connection's own packets, local to remote.
  mad::PathRecord path;
  /// Path in use after migration; same P_Key and MTU.
  std::optional<mad::PathRecord> alternate_path;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  mad::RetryCount retry_count{7};
  mad::RnrRetryCount rnr_retry_count{7};
  bool srq = false;
  bool end_to_end_flow_control = false;
  mad::TransportService transport_service = mad::TransportService::Rc;
  mad::ExtendedTransport extended_transport;
  /// Enhanced connection establishment: vendor and its options, 0 when not used.
  mad::EceVendor ece_vendor;
  std::uint32_t ece_options = 0;
  /// Both ends connect() to the same service id of each other and get one connection. The end with
  /// the larger CA GUID, or the larger QPN of one CA, stays the active one; the other is offered
  /// the peer's REQ under the handle of its own connect, and accepts it.
  bool peer_to_peer = false;
  /// When to give up, whatever the state of the handshake. In the future. With Timers::Iba the peer
  /// may move it by an MRA, as the specification lets it.
  Instant deadline;
  Policy policy = {};
  /// With Timers::Iba, instead of Config::cm_response_timeout and 15 retries.
  std::optional<IbTimeout> remote_cm_response_timeout = {};
  std::optional<IbTimeout> local_cm_response_timeout = {};
  std::optional<mad::CmRetryCount> max_cm_retries = {};
  BoundedBytes<mad::Req::kPrivateSize> private_data;
};

/// For Engine::accept().
struct AcceptParams {
  Guid local_ca_guid;
  Qpn qpn;
  /// What the peer shall send first: our rq_psn.
  Psn starting_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  mad::RnrRetryCount rnr_retry_count{7};
  bool srq = false;
  bool end_to_end_flow_control = false;
  mad::Failover failover = mad::Failover::Accepted;
  mad::EceVendor ece_vendor;
  std::uint32_t ece_options = 0;
  /// Config::ca_ack_delay when absent.
  std::optional<IbTimeout> target_ack_delay = {};
  /// When to give up waiting for the RTU; Config::rtu_deadline from now when absent.
  std::optional<Instant> deadline;
  BoundedBytes<mad::Rep::kPrivateSize> private_data;
};

/// For Engine::load_alternate().
struct LapParams {
  /// Path in use after migration, local to remote.
  mad::PathRecord path;
  /// Config::cm_response_timeout when absent.
  std::optional<IbTimeout> remote_cm_response_timeout = {};
  /// When to give up waiting for the APR.
  Instant deadline;
  BoundedBytes<mad::Lap::kPrivateSize> private_data;
};

/// For Engine::answer_alternate().
struct AprParams {
  mad::AprStatus status = mad::AprStatus::Loaded;
  /// What would be acceptable, where the status has such.
  BoundedBytes<mad::Apr::kInfoSize> info;
  BoundedBytes<mad::Apr::kPrivateSize> private_data;
};

/// For Engine::resolve_service().
struct SidrParams {
  Address to;
  ServiceId service_id;
  PKey pkey;
  /// When to give up. In the future.
  Instant deadline;
  Timers timers = Timers::Adaptive;
  /// With Timers::Iba: how often, and after what interval, the SIDR_REQ is repeated.
  Duration iba_interval = std::chrono::seconds(4);
  unsigned max_cm_retries = 15;
  BoundedBytes<mad::SidrReq::kPrivateSize> private_data;
};

/// For Engine::answer_service().
struct SidrAnswer {
  mad::SidrStatus status = mad::SidrStatus::Valid;
  Qpn qpn;
  QKey qkey;
  mad::EceVendor ece_vendor;
  std::uint32_t ece_options = 0;
  BoundedBytes<mad::SidrRep::kInfoSize> info;
  BoundedBytes<mad::SidrRep::kPrivateSize> private_data;
};

/// Names a service id resolution of one engine; never used twice.
enum class ResolutionId : std::uint64_t {};

/// One datagram to send.
struct Transmit {
  Address to;
  /// Nothing for the answer to a Get(ClassPortInfo).
  std::optional<mad::CmKind> kind;
  /// The same message has been sent before.
  bool is_retransmit = false;
  mad::Mad bytes{};
  friend bool operator==(const Transmit&, const Transmit&) noexcept = default;
};

}  // namespace wireup::cm
