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
  Lid dlid;
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
/// the same LID, or, with a GRH on both (a router or a moved LID between), the same GID.
[[nodiscard]] constexpr bool is_same_source(const Address& peer, const Address& from) noexcept {
  const bool same_gid = peer.has_grh && from.has_grh && peer.dgid == from.dgid;
  return peer.qpn == from.qpn && (peer.dlid == from.dlid || same_gid);
}

/// Names a connection of one engine. A handle outlives its connection safely: the generation of a
/// slot changes with every use.
struct Handle {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  friend constexpr auto operator<=>(const Handle&, const Handle&) noexcept = default;
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
  /// Our queue pair. It must not be in a connection or in TIMEWAIT towards the same peer.
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
  /// When to give up, whatever the state of the handshake. In the future.
  Instant deadline;
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
  /// When to give up waiting for the RTU; Config::rtu_deadline from now when absent.
  std::optional<Instant> deadline;
  BoundedBytes<mad::Rep::kPrivateSize> private_data;
};

/// One datagram to send.
struct Transmit {
  Address to;
  mad::CmKind kind = mad::CmKind::Req;
  /// The same message has been sent before.
  bool is_retransmit = false;
  mad::Mad bytes{};
  friend bool operator==(const Transmit&, const Transmit&) noexcept = default;
};

}  // namespace wireup::cm
