// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cm/engine/types.hpp"
#include "mad/path_record.hpp"

/// What the connection engine is told, what it asks of its driver and what it tells.
namespace wireup::conn {

/// Service id of wireup's listeners: in the locally administered range (IBTA vol 1, annex A3: first
/// byte 0x02), which no standard assigns from; "WUP" and a number.
inline constexpr ServiceId kServiceId{0x0200'0000'5755'5001ULL};

/// One connection, or an attempt at one, of one engine; never used twice. 0 is none.
using ConnectionId = Id<struct ConnectionIdTag, std::uint64_t, 64>;

/// What we need to know of a peer to reach it: the first port of its card.
struct PeerCard {
  std::uint64_t incarnation = 0;
  Gid gid;
  Lid lid;
  PKey pkey;
  Qpn cm_qpn;
  friend constexpr bool operator==(const PeerCard&, const PeerCard&) noexcept = default;
};

/// A path of our own outgoing direction; `origin` is the resolver's word for where it is from.
struct Path {
  mad::PathRecord record;
  std::uint8_t origin = 0;
  friend constexpr bool operator==(const Path&, const Path&) noexcept = default;
};

/// What an engine is told once.
struct Config {
  PeerId self;
  /// Ranks of the job: requests of others are refused.
  std::uint32_t job_size = 1;
  std::uint64_t incarnation = 0;
  /// "softhca0 port 1", for messages.
  std::string port_name;
  Guid ca_guid;
  Gid gid;
  Lid lid;
  std::uint8_t lmc = 0;
  PKey pkey;
  /// IBA code of the port's MTU.
  std::uint8_t mtu = 0;
  ServiceId service_id = kServiceId;
  /// Outstanding RDMA reads and atomics: that we answer, and that we start.
  std::uint8_t responder_resources = 1;
  std::uint8_t initiator_depth = 1;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
  /// The QPs' ACK timeout is at least this, whatever lifetime the path states.
  IbTimeout min_ack_timeout{16};
  /// Bound of an answer to a request of a peer, from the REQ to the RTU.
  Duration accept_timeout = std::chrono::seconds(30);
  cm::Config cm;
  friend bool operator==(const Config&, const Config&) = default;
};

/// All that an RC QP is programmed with besides port and P_Key.
struct QpAttributes {
  Lid dlid;
  Sl sl;
  std::uint8_t static_rate = 0;
  std::uint8_t path_bits = 0;
  bool has_grh = false;
  Gid dgid;
  FlowLabel flow_label;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  Qpn peer_qpn;
  std::uint8_t mtu = 0;
  Psn receive_psn;
  Psn send_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  IbTimeout ack_timeout;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  friend constexpr bool operator==(const QpAttributes&, const QpAttributes&) noexcept = default;
};

/// Steps of a connection, as failures name them.
/// X-macro columns: name, number (the C API's), text.
#define WIREUP_CONN_STEPS(X)       \
  X(None, 0, "none")               \
  X(Card, 1, "card")               \
  X(Path, 2, "path")               \
  X(Qp, 3, "qp")                   \
  X(Request, 4, "request")         \
  X(Reply, 5, "reply")             \
  X(ReadyToUse, 6, "ready-to-use") \
  X(Disconnect, 7, "disconnect")

enum class Step : std::uint8_t {
#define WIREUP_CONN_STEP_ENUMERATOR(name, number, text) name = (number),
  WIREUP_CONN_STEPS(WIREUP_CONN_STEP_ENUMERATOR)
#undef WIREUP_CONN_STEP_ENUMERATOR
};
[[nodiscard]] std::string_view step_name(Step step) noexcept;

/// Why a connection ended. The numbers are the C API's.
enum class EndReason : std::uint8_t {
  None = 0,
  /// This side closed it.
  Local = 1,
  /// The peer closed it.
  Peer = 2,
  /// This side closed it, the peer did not answer.
  NoAnswer = 3,
  /// The peer started another connection: it had lost this one.
  Replaced = 4,
};

// Commands: what the driver is to do. Answer each with the handle_*() named, at once or later.

/// Fetch the peer's card: handle_card().
struct RequestCard {
  PeerId peer;
  Instant deadline;
  friend bool operator==(const RequestCard&, const RequestCard&) noexcept = default;
};
/// Resolve the path from our port to `dgid`: handle_path().
struct RequestPath {
  ConnectionId id;
  Gid dgid;
  Instant deadline;
  friend bool operator==(const RequestPath&, const RequestPath&) noexcept = default;
};
/// Make an RC QP and move it to INIT: handle_qp_created().
struct CreateQp {
  ConnectionId id;
  friend bool operator==(const CreateQp&, const CreateQp&) noexcept = default;
};
/// Move the QP to RTR and RTS: handle_qp_connected().
struct ConnectQp {
  ConnectionId id;
  QpAttributes attributes;
  friend bool operator==(const ConnectQp&, const ConnectQp&) noexcept = default;
};
/// Move the QP to the error state. No answer.
struct BreakQp {
  ConnectionId id;
  friend bool operator==(const BreakQp&, const BreakQp&) noexcept = default;
};
/// The QP is not needed any more and its number may be used again. No answer.
struct ReleaseQp {
  ConnectionId id;
  friend bool operator==(const ReleaseQp&, const ReleaseQp&) noexcept = default;
};
using Command = std::variant<RequestCard, RequestPath, CreateQp, ConnectQp, BreakQp, ReleaseQp>;

// Events: what the user is told.

struct Connected {
  PeerId peer;
  ConnectionId id;
  friend bool operator==(const Connected&, const Connected&) noexcept = default;
};
/// A connect() of this side came to nothing.
struct Failed {
  PeerId peer;
  Step step = Step::None;
  Error error;
  /// Messages sent in vain at that step.
  unsigned attempts = 0;
  friend bool operator==(const Failed&, const Failed&) noexcept = default;
};
/// `id` is 0 when there was no connection yet.
struct Disconnected {
  PeerId peer;
  ConnectionId id;
  EndReason reason = EndReason::None;
  friend bool operator==(const Disconnected&, const Disconnected&) noexcept = default;
};
using Event = std::variant<Connected, Failed, Disconnected>;

/// Counts since construction.
struct Counters {
  std::uint64_t connected = 0;
  /// Attempts that failed, whichever side began them.
  std::uint64_t failed = 0;
  std::uint64_t disconnected = 0;
  /// Both sides asked at once; counted at each side once it knows.
  std::uint64_t crossed = 0;
  /// Requests that we refused.
  std::uint64_t refused = 0;
  /// Requests that belonged to an earlier connection.
  std::uint64_t stale_requests = 0;
  friend bool operator==(const Counters&, const Counters&) noexcept = default;
};

}  // namespace wireup::conn
