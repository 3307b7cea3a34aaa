// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "cm/engine/engine.hpp"

namespace wireup::cm {

/// One engine whose peer is played by hand: the test writes the peer's messages and sees what each
/// call led to as text, in this order: ">REP" sent, "!Established" told, "~duplicate" dropped,
/// "?InvalidState" refused.
///
///   command / message / time ──► Engine ──► observed(): ">REJ !Failed"
class PlayedEngine {
 public:
  static constexpr ServiceId kService{0x1000000000000042ULL};
  static constexpr Guid kOurGuid{0xA};
  static constexpr Guid kPeerGuid{0xB};
  static constexpr Qpn kOurQpn{0x500};
  static constexpr Qpn kPeerQpn{0x600};
  static constexpr CommId kPeerId{0x7777};
  /// Beyond a retransmission interval and an MRA's service timeout, before any deadline.
  static constexpr Duration kRetransmission = std::chrono::seconds(3);
  static constexpr Duration kTimewait = std::chrono::seconds(5);
  static constexpr Duration kDeadline = std::chrono::seconds(20);

  PlayedEngine() : engine(config(), Rng(9)) {
    engine.listen(kService, policy());
    engine.serve(kService);
  }

  [[nodiscard]] static Config config() {
    Config config;
    config.initial_rto = std::chrono::seconds(1);
    config.jitter_percent = 0;
    config.offer_deadline = kDeadline;
    config.rtu_deadline = kDeadline;
    config.disconnect_deadline = kDeadline;
    config.timewait = kTimewait;
    config.stale_guard = Duration::zero();
    return config;
  }
  [[nodiscard]] static Policy policy() {
    Policy policy;
    policy.answers_release = false;
    policy.takes_alternate_paths = true;
    return policy;
  }
  [[nodiscard]] static Address peer() {
    Address address;
    address.dlid = Lid(7);
    address.qpn = Qpn(0x1007);
    return address;
  }
  [[nodiscard]] ConnectParams connect_params(bool peer_to_peer = false) const {
    ConnectParams params;
    params.to = peer();
    params.service_id = kService;
    params.local_ca_guid = kOurGuid;
    params.qpn = kOurQpn;
    params.path = path();
    params.peer_to_peer = peer_to_peer;
    params.deadline = now + kDeadline;
    params.policy = policy();
    return params;
  }
  [[nodiscard]] static mad::PathRecord path() {
    mad::PathRecord path;
    path.slid = Lid(3);
    path.dlid = Lid(7);
    path.mtu = 5;
    path.rate = 7;
    path.packet_lifetime = 10;
    return path;
  }
  [[nodiscard]] AcceptParams accept_params() const {
    AcceptParams params;
    params.local_ca_guid = kOurGuid;
    params.qpn = kOurQpn;
    return params;
  }

  // The peer's messages.
  [[nodiscard]] static mad::Req req(CommId id = kPeerId) {
    mad::Req req;
    req.tid = Tid(1);
    req.local_comm_id = id;
    req.service_id = kService;
    req.local_ca_guid = kPeerGuid;
    req.local_qpn = kPeerQpn;
    req.path_mtu = mad::CmMtu(5);
    req.max_cm_retries = mad::CmRetryCount(15);
    return req;
  }
  template <typename M>
  [[nodiscard]] M message() const {
    M message;
    message.tid = Tid(2);
    message.local_comm_id = kPeerId;
    message.remote_comm_id = our_id;
    return message;
  }
  [[nodiscard]] mad::Rep rep() const {
    mad::Rep rep = message<mad::Rep>();
    rep.local_ca_guid = kPeerGuid;
    rep.local_qpn = kPeerQpn;
    return rep;
  }
  [[nodiscard]] mad::Mra mra(mad::MraOf of) const {
    mad::Mra mra = message<mad::Mra>();
    mra.message = of;
    mra.service_timeout = IbTimeout(18);
    return mra;
  }
  [[nodiscard]] mad::Rej rej(mad::RejReason reason) const {
    mad::Rej rej = message<mad::Rej>();
    rej.reason = static_cast<std::uint16_t>(reason);
    return rej;
  }
  [[nodiscard]] mad::Dreq dreq(Qpn names = kOurQpn) const {
    mad::Dreq dreq = message<mad::Dreq>();
    dreq.remote_qpn = names;
    return dreq;
  }
  [[nodiscard]] mad::Lap lap(Tid tid) const {
    mad::Lap lap = message<mad::Lap>();
    lap.tid = tid;
    lap.remote_qpn = kOurQpn;
    return lap;
  }

  template <typename M>
  void receive(const M& message, const Address& from = peer()) {
    engine.handle_mad(from, mad::serialize(message), now);
  }
  void wait(Duration duration) {
    now += duration;
    engine.handle_timeout(now);
  }
  /// Notes a refusal for observed().
  template <typename T>
  void note(const Result<T>& result) {
    if (!result) {
      refusal_ = " ?" + std::string(error_name(static_cast<Errc>(result.error().code().value())));
    }
  }

  /// What happened since the last call.
  [[nodiscard]] std::string observed() {
    std::string text;
    while (const auto transmit = engine.poll_transmit()) {
      text += " >" + std::string(transmit->kind ? mad::cm_kind_name(*transmit->kind) : "Info");
      last_sent = transmit;
      if (const auto sent = mad::parse_cm(transmit->bytes)) {
        learn(*sent);
      }
    }
    while (const auto event = engine.poll_event()) {
      text += " !" + std::string(name_of(*event));
      last_event = event;
    }
    while (const auto event = engine.poll_sidr_event()) {
      static constexpr const char* kNames[] = {"SidrReqReceived", "SidrRepReceived", "SidrFailed"};
      text += std::string(" !") + kNames[event->index()];
      last_sidr_event = event;
    }
    const auto& dropped = engine.counters().dropped;
    for (std::size_t reason = 0; reason < dropped.size(); ++reason) {
      for (; seen_drops_[reason] < dropped[reason]; ++seen_drops_[reason]) {
        text += " ~" + std::string(drop_reason_name(static_cast<DropReason>(reason)));
      }
    }
    text += refusal_;
    refusal_.clear();
    return text.empty() ? text : text.substr(1);
  }

  Instant now{std::chrono::seconds(1)};
  Engine engine;
  /// Our communication id, once a message has told it.
  CommId our_id;
  std::optional<Transmit> last_sent;
  std::optional<Event> last_event;
  std::optional<SidrEvent> last_sidr_event;

 private:
  void learn(const mad::CmMessage& sent) {
    if (const auto* req = std::get_if<mad::Req>(&sent)) {
      our_id = req->local_comm_id;
    } else if (const auto* rep = std::get_if<mad::Rep>(&sent)) {
      our_id = rep->local_comm_id;
    } else if (const auto* mra = std::get_if<mad::Mra>(&sent)) {
      our_id = mra->local_comm_id;
    }
  }
  static const char* name_of(const Event& event) {
    static constexpr const char* kNames[] = {
        "ReqReceived",      "RepReceived",       "Established",    "Rejected",
        "Failed",           "Disconnected",      "TimewaitExit",   "MraReceived",
        "AlternateOffered", "AlternateAnswered", "AlternateFailed"};
    static_assert(std::size(kNames) == std::variant_size_v<Event>);
    return kNames[event.index()];
  }

  std::string refusal_;
  std::array<std::uint64_t, static_cast<std::size_t>(DropReason::kCount)> seen_drops_{};
};

}  // namespace wireup::cm
