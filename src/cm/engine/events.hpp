// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/bounded_bytes.hpp"
#include "base/time.hpp"
#include "cm/engine/types.hpp"
#include "mad/cm.hpp"

/// What an engine tells. "Ends" below means: the handle is not valid any more.
namespace wireup::cm {

/// A peer asks for a connection on a service that we listen on. Answer with accept(), reject() or
/// abandon(); delay() asks the peer for patience.
struct ReqReceived {
  Handle handle;
  mad::Req req;
  Address from;
  friend bool operator==(const ReqReceived&, const ReqReceived&) noexcept = default;
};

/// The peer has accepted. Move the QP to RTS and call establish(), or reject().
struct RepReceived {
  Handle handle;
  mad::Rep rep;
  friend bool operator==(const RepReceived&, const RepReceived&) noexcept = default;
};

/// An accepted connection is established: the RTU came, or data did (then private_data is zero).
/// The active side, which knows by its own establish(), gets no such event.
struct Established {
  Handle handle;
  std::array<std::uint8_t, mad::Rtu::kPrivateSize> private_data{};
  friend bool operator==(const Established&, const Established&) noexcept = default;
};

/// The peer refused before the connection was established, or answered with a queue pair that is
/// still in another connection here (StaleConnection; ask again). Ends, unless the peer refused by
/// StaleConnection or after its REP: then TimewaitExit follows (Engine::state() tells).
struct Rejected {
  Handle handle;
  /// A mad::RejReason, or a number that we do not know.
  std::uint16_t reason = 0;
  BoundedBytes<mad::Rej::kAriSize> ari;
  std::array<std::uint8_t, mad::Rej::kPrivateSize> private_data{};
  friend bool operator==(const Rejected&, const Rejected&) noexcept = default;
};

/// What a connect waited for when its deadline passed.
enum class Step : std::uint8_t {
  /// REQ sent: no REP came.
  Reply,
  /// REQ offered to our consumer: no accept() or reject() came.
  Accept,
  /// REP sent: no RTU came.
  ReadyToUse,
  /// REP offered to our consumer: no establish() or reject() came.
  Establish,
};
/// "reply", "accept", "ready-to-use", "establish".
[[nodiscard]] std::string_view step_name(Step step) noexcept;

/// A deadline passed before the connection was established; the peer was told by a REJ(timeout).
/// Ends.
struct Failed {
  Handle handle;
  Step step = Step::Reply;
  /// How often our message of this step was sent; 0 for the steps of our own consumer.
  unsigned attempts = 0;
  friend bool operator==(const Failed&, const Failed&) noexcept = default;
};

enum class DisconnectCause : std::uint8_t {
  /// Our disconnect(), answered.
  ByUs,
  /// The peer's DREQ.
  ByPeer,
  /// Our disconnect(), never answered.
  Timeout,
  /// The peer refused the established connection by a REJ.
  Rejected,
  /// The peer asks for a connection with a queue pair of this one: it has lost this one.
  Stale,
};
/// "by us", "by peer", "timeout", "rejected", "stale".
[[nodiscard]] std::string_view disconnect_cause_name(DisconnectCause cause) noexcept;

/// An established connection is over, told once. TimewaitExit follows.
struct Disconnected {
  Handle handle;
  DisconnectCause cause = DisconnectCause::ByUs;
  /// The peer waits for Engine::release() (Policy::answers_release is false).
  bool awaits_release = false;
  /// Of the peer's REJ, when the cause is Rejected.
  std::uint16_t reason = 0;
  /// The first bytes of the peer's DREQ, DREP or REJ, or zero.
  std::array<std::uint8_t, mad::Dreq::kPrivateSize> private_data{};
  friend bool operator==(const Disconnected&, const Disconnected&) noexcept = default;
};

/// The QP number may be used again towards the same peer. Ends.
struct TimewaitExit {
  Handle handle;
  Qpn local_qpn;
  friend bool operator==(const TimewaitExit&, const TimewaitExit&) noexcept = default;
};

/// The peer asks for patience before it answers our REQ, REP or LAP.
struct MraReceived {
  Handle handle;
  mad::MraOf message = mad::MraOf::Req;
  IbTimeout service_timeout;
  std::array<std::uint8_t, mad::Mra::kPrivateSize> private_data{};
  friend bool operator==(const MraReceived&, const MraReceived&) noexcept = default;
};

/// The peer proposes an alternate path. Answer with answer_alternate(); delay() asks the peer for
/// patience.
struct AlternateOffered {
  Handle handle;
  mad::Lap lap;
  friend bool operator==(const AlternateOffered&, const AlternateOffered&) noexcept = default;
};

/// The answer to our load_alternate(). With AprStatus::Loaded the QP is to be given the path, and
/// rearmed.
struct AlternateAnswered {
  Handle handle;
  mad::Apr apr;
  friend bool operator==(const AlternateAnswered&, const AlternateAnswered&) noexcept = default;
};

/// No answer to our load_alternate(). The connection is as it was.
struct AlternateFailed {
  Handle handle;
  /// How often the LAP was sent.
  unsigned attempts = 0;
  friend bool operator==(const AlternateFailed&, const AlternateFailed&) noexcept = default;
};

using Event =
    std::variant<ReqReceived, RepReceived, Established, Rejected, Failed, Disconnected,
                 TimewaitExit, MraReceived, AlternateOffered, AlternateAnswered, AlternateFailed>;

/// The connection that an event is about.
[[nodiscard]] Handle handle_of(const Event& event);

/// A peer asks for the queue pair of a service that we serve. Answer with answer_service().
struct SidrReqReceived {
  ResolutionId id{};
  mad::SidrReq req;
  Address from;
  friend bool operator==(const SidrReqReceived&, const SidrReqReceived&) noexcept = default;
};

/// The answer to our resolve_service(). Ends it.
struct SidrRepReceived {
  ResolutionId id{};
  mad::SidrRep rep;
  friend bool operator==(const SidrRepReceived&, const SidrRepReceived&) noexcept = default;
};

/// No answer to our resolve_service(). Ends it.
struct SidrFailed {
  ResolutionId id{};
  /// How often the SIDR_REQ was sent.
  unsigned attempts = 0;
  friend bool operator==(const SidrFailed&, const SidrFailed&) noexcept = default;
};

using SidrEvent = std::variant<SidrReqReceived, SidrRepReceived, SidrFailed>;

}  // namespace wireup::cm
