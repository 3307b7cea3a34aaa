// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "cm/engine/engine.hpp"
#include "cm/engine/request.hpp"
#include "mad/class_port_info.hpp"

namespace wireup::cm {
namespace {

constexpr std::size_t kGuidSize = 8;

/// A REJ that answers a message which belongs to no connection of ours. Its "local" id is the one
/// that the peer took for ours, so that the peer can check it.
template <typename M>
mad::Rej answer_to(const M& message, CommId ours, mad::RejOf of, mad::RejReason reason,
                   const Config& config) noexcept {
  mad::Rej rej;
  rej.tid = message.tid;
  rej.local_comm_id = ours;
  rej.remote_comm_id = message.local_comm_id;
  rej.message = of;
  rej.reason = static_cast<std::uint16_t>(reason);
  rej.private_data = mad::private_data<mad::Rej::kPrivateSize>(config.identity.span());
  return rej;
}

Input input_of(const mad::Rej& rej) noexcept {
  return rej.reason == static_cast<std::uint16_t>(mad::RejReason::StaleConnection)
             ? Input::RecvRejStale
             : Input::RecvRej;
}

}  // namespace

void Engine::handle_mad(const Address& from, std::span<const std::uint8_t> bytes, Instant now) {
  const auto message = mad::parse_cm(bytes);
  if (!message) {
    if (!handle_class_port_info(from, bytes)) {
      drop(DropReason::Malformed);
    }
    return;
  }
  ++outbox_.counters.received[mad::index_of(mad::kind_of(*message))];
  std::visit([&](const auto& m) { handle(from, m, now); }, *message);
}

bool Engine::handle_class_port_info(const Address& from, std::span<const std::uint8_t> bytes) {
  const auto answer = mad::answer_class_port_info(bytes, config_.cm_response_timeout);
  if (answer.has_value()) {
    ++outbox_.counters.class_port_infos;
    outbox_.transmits.push_back(Transmit{from, std::nullopt, false, *answer});
  }
  return answer.has_value();
}

void Engine::handle(const Address& from, const mad::SidrReq& req, Instant now) {
  sidr_.handle(from, req, context(now));
}

void Engine::handle(const Address& from, const mad::SidrRep& rep, Instant now) {
  sidr_.handle(from, rep, context(now));
}

std::optional<std::uint32_t> Engine::match(const Address& from, CommId local, CommId remote) {
  const auto index = table_.find(local);
  if (!index) {
    drop(DropReason::UnknownConnection);
    return std::nullopt;
  }
  const Connection& connection = table_.at(*index);
  if (!connection.remote_comm_id.is_zero() && connection.remote_comm_id != remote) {
    drop(DropReason::UnknownConnection);
    return std::nullopt;
  }
  if (!is_same_source(connection.peer, from)) {
    drop(DropReason::WrongSource);
    return std::nullopt;
  }
  return index;
}

void Engine::handle(const Address& from, const mad::Req& req, Instant now) {
  if (req.local_comm_id.is_zero()) {
    drop(DropReason::Malformed);
    return;
  }
  const RemoteId id{req.local_ca_guid, req.local_comm_id, from.qpn};
  if (const auto same = table_.find(id)) {
    handle_duplicate(*same, from, req, now);
    return;
  }
  if (const auto owner = table_.find(RemoteQp{req.local_ca_guid, req.local_qpn})) {
    if (table_.at(*owner).remote_comm_id == req.local_comm_id) {
      // Of a peer-to-peer connect that has yielded to ours.
      drop(DropReason::Duplicate);
      return;
    }
    refuse_twin(*owner, from,
                answer_to(req, CommId{}, mad::RejOf::Req, mad::RejReason::StaleConnection, config_),
                now);
    return;
  }
  if (meet_peer(from, req, now)) {
    return;
  }
  const auto policy = services_.find(req.service_id);
  if (!policy.has_value()) {
    send_rej(from,
             answer_to(req, CommId{}, mad::RejOf::Req, mad::RejReason::InvalidServiceId, config_));
    return;
  }
  offer(from, req, *policy, now);
}

bool Engine::meet_peer(const Address& from, const mad::Req& req, Instant now) {
  const auto [begin, end] = callers_.equal_range(req.service_id);
  const auto own = std::find_if(begin, end, [&](const auto& caller) {
    return is_same_source(table_.at(caller.second).peer, from);
  });
  if (own == end) {
    return false;
  }
  const std::uint32_t index = own->second;
  const Connection& connection = table_.at(index);
  // The larger CA GUID, or the larger QPN of one CA, stays active (as Linux had it before it gave
  // the mode up: cm_is_active_peer in drivers/infiniband/core/cm.c until 5.8).
  if (std::pair(connection.local_ca_guid, connection.local_qpn) >=
      std::pair(req.local_ca_guid, req.local_qpn)) {
    drop(DropReason::Crossing);
    return true;
  }
  const Cell cell = look_up(index, Input::RecvPeerReq);
  WIREUP_CHECK(cell.action == Action::Yield);
  take_offer(index, from, req);
  enter(index, cell.next, now);
  events_.emplace_back(ReqReceived{table_.handle(index), req, from});
  return true;
}

void Engine::handle_duplicate(std::uint32_t index, const Address& from, const mad::Req& req,
                              Instant now) {
  if (!is_same_source(table_.at(index).peer, from)) {
    drop(DropReason::WrongSource);
    return;
  }
  const Cell cell = look_up(index, Input::RecvReq);
  if (ask_patience(index, now)) {
    drop(DropReason::Duplicate);
  } else if (cell.action == Action::Resend) {
    resend(index, now);
  } else if (cell.action == Action::RejectStale) {
    send_rej(from, answer_to(req, table_.at(index).local_comm_id, mad::RejOf::Req,
                             mad::RejReason::StaleConnection, config_));
  } else {
    drop(cell.action == Action::DropDuplicate ? DropReason::Duplicate
                                              : DropReason::UnexpectedState);
  }
}

bool Engine::ask_patience(std::uint32_t index, Instant now) {
  const IbTimeout patience = table_.at(index).policy.patience;
  if (patience == IbTimeout{0} || look_up(index, Input::SendMra).action == Action::Refuse) {
    return false;
  }
  const auto asked = delay(table_.handle(index), patience, config_.identity.span(), now);
  return asked.has_value();
}

bool Engine::refuse_twin(std::uint32_t owner, const Address& from, const mad::Rej& answer,
                         Instant now) {
  const Connection& connection = table_.at(owner);
  const bool is_young =
      connection.state == State::Established && now - connection.since < config_.stale_guard;
  const Cell cell = look_up(owner, Input::RecvTwin);
  if (is_young || cell.action == Action::Drop) {
    drop(DropReason::Crossing);
    return false;
  }
  send_rej(from, answer);
  if (cell.action == Action::RejectStaleAndRelease) {
    events_.emplace_back(
        Disconnected{table_.handle(owner), DisconnectCause::Stale, false, answer.reason, {}});
    send_dreq(owner, config_.identity.span(), now);
    enter(owner, cell.next, now);
  }
  return true;
}

void Engine::offer(const Address& from, const mad::Req& req, const Policy& policy, Instant now) {
  const auto index = table_.add();
  if (!index) {
    drop(DropReason::NoRoom);
    return;
  }
  Connection& connection = table_.at(*index);
  connection.policy = policy;
  connection.timers.set(Timer::Deadline, now + config_.offer_deadline);
  take_offer(*index, from, req);
  enter(*index, look_up(*index, Input::RecvReq).next, now);
  events_.emplace_back(ReqReceived{table_.handle(*index), req, from});
}

void Engine::take_offer(std::uint32_t index, const Address& from, const mad::Req& req) {
  Connection& connection = table_.at(index);
  connection.is_active = false;
  connection.tid = req.tid;
  connection.peer = from;
  connection.remote_comm_id = req.local_comm_id;
  connection.remote_ca_guid = req.local_ca_guid;
  connection.remote_qpn = req.local_qpn;
  connection.local_ack_timeout = req.primary.local_ack_timeout;
  connection.is_xrc = is_xrc(req.transport_service, req.extended_transport);
  connection.max_cm_retries = req.max_cm_retries.value();
  // A REP waits for as long as the sender of the REQ says of its own CM (IBTA vol 1, 12.7.27).
  connection.interval = req.local_cm_response_timeout.duration();
  connection.last_sent = {};
  connection.timers.stop(Timer::Retransmit);
  table_.name_remote_id(index);
}

void Engine::handle(const Address& from, const mad::Rep& rep, Instant now) {
  if (rep.local_comm_id.is_zero()) {
    drop(DropReason::Malformed);
    return;
  }
  if (!table_.find(rep.remote_comm_id)) {
    // We gave up or never asked: the peer shall not wait for an RTU.
    drop(DropReason::UnknownConnection);
    send_rej(from, answer_to(rep, rep.remote_comm_id, mad::RejOf::Rep,
                             mad::RejReason::InvalidCommId, config_));
    return;
  }
  const auto index = match(from, rep.remote_comm_id, rep.local_comm_id);
  if (!index) {
    return;
  }
  const Cell cell = look_up(*index, Input::RecvRep);
  if (cell.action == Action::LearnReply) {
    learn_reply(*index, from, rep, now);
  } else if (ask_patience(*index, now)) {
    drop(DropReason::Duplicate);
  } else if (cell.action == Action::Resend) {
    resend(*index, now);
  } else {
    drop(cell.action == Action::DropDuplicate ? DropReason::Duplicate
                                              : DropReason::UnexpectedState);
  }
}

void Engine::learn_reply(std::uint32_t index, const Address& from, const mad::Rep& rep,
                         Instant now) {
  const Qpn remote_qpn = table_.at(index).is_xrc ? Qpn(rep.local_eecn.value()) : rep.local_qpn;
  if (const auto owner = table_.find(RemoteQp{rep.local_ca_guid, remote_qpn})) {
    const mad::Rej answer = answer_to(rep, rep.remote_comm_id, mad::RejOf::Rep,
                                      mad::RejReason::StaleConnection, config_);
    if (refuse_twin(*owner, from, answer, now)) {
      // The refusal is final: a copy of the REP that comes when the owner is gone finds nothing.
      events_.emplace_back(Rejected{table_.handle(index), answer.reason, {}, {}});
      enter(index, look_up(index, Input::SendRej).next, now);
    }
    return;
  }
  Connection& connection = table_.at(index);
  if (connection.state == State::ReqSent) {
    sample(request_rtt_, connection, now);
  }
  connection.remote_comm_id = rep.local_comm_id;
  connection.remote_ca_guid = rep.local_ca_guid;
  connection.remote_qpn = remote_qpn;
  connection.last_sent = {};
  connection.timers.stop(Timer::Retransmit);
  if (connection.policy.timers == Timers::Iba) {
    // The retries' time was for the peer; it has answered. Our consumer has its own.
    connection.timers.set(Timer::Deadline, now + config_.offer_deadline);
  }
  const bool claimed = table_.claim_remote_qp(index);
  WIREUP_CHECK(claimed);
  enter(index, look_up(index, Input::RecvRep).next, now);
  events_.emplace_back(RepReceived{table_.handle(index), rep});
}

void Engine::handle(const Address& from, const mad::Rtu& rtu, Instant now) {
  const auto index = match(from, rtu.remote_comm_id, rtu.local_comm_id);
  if (!index) {
    return;
  }
  const Cell cell = look_up(*index, Input::RecvRtu);
  if (cell.action == Action::ReportEstablished) {
    become_established(*index, Input::RecvRtu, rtu.private_data, now);
  } else {
    drop(cell.action == Action::DropDuplicate ? DropReason::Duplicate
                                              : DropReason::UnexpectedState);
  }
}

void Engine::become_established(
    std::uint32_t index, Input input,
    const std::array<std::uint8_t, mad::Rtu::kPrivateSize>& private_data, Instant now) {
  Connection& connection = table_.at(index);
  if (input == Input::RecvRtu && connection.state == State::RepSent) {
    sample(reply_rtt_, connection, now);
  }
  connection.last_sent = {};
  connection.since = now;
  events_.emplace_back(Established{table_.handle(index), private_data});
  enter(index, look_up(index, input).next, now);
}

std::optional<std::uint32_t> Engine::match_rej(const Address& from, const mad::Rej& rej) {
  if (!rej.remote_comm_id.is_zero()) {
    return match(from, rej.remote_comm_id, rej.local_comm_id);
  }
  const bool names_guid = rej.reason == static_cast<std::uint16_t>(mad::RejReason::Timeout) &&
                          rej.ari.size() >= kGuidSize;
  if (names_guid) {
    const Guid guid(load_be(rej.ari.span(), 0, kGuidSize));
    if (const auto index = table_.find(RemoteId{guid, rej.local_comm_id, from.qpn})) {
      return match(from, table_.at(*index).local_comm_id, rej.local_comm_id);
    }
  }
  drop(DropReason::UnknownConnection);
  return std::nullopt;
}

void Engine::handle(const Address& from, const mad::Rej& rej, Instant now) {
  const auto index = match_rej(from, rej);
  if (!index) {
    return;
  }
  const Connection& connection = table_.at(*index);
  if (connection.is_caller &&
      rej.reason == static_cast<std::uint16_t>(mad::RejReason::InvalidServiceId)) {
    // The peer has not called yet.
    drop(DropReason::Crossing);
    return;
  }
  if (connection.state == State::Established &&
      look_up(*index, AlternateInput::RecvRej).action != AlternateAction::Believe) {
    drop(DropReason::UnexpectedState);
    return;
  }
  const Cell cell = look_up(*index, input_of(rej));
  if (cell.action == Action::ReportRejected) {
    events_.emplace_back(Rejected{table_.handle(*index), rej.reason, rej.ari, rej.private_data});
    enter(*index, cell.next, now);
  } else if (cell.action == Action::ReportBroken) {
    finish_release(*index, DisconnectCause::Rejected, rej.private_data, rej.reason, now);
  } else if (cell.action == Action::FinishRelease) {
    finish_release(*index, connection.unreported, rej.private_data, rej.reason, now);
  } else {
    drop(DropReason::UnexpectedState);
  }
}

void Engine::handle(const Address& from, const mad::Mra& mra, Instant now) {
  const auto index = match(from, mra.remote_comm_id, mra.local_comm_id);
  if (!index) {
    return;
  }
  if (mra.message == mad::MraOf::Lap) {
    handle_mra_of_lap(*index, mra, now);
    return;
  }
  const bool is_known = mra.message == mad::MraOf::Req || mra.message == mad::MraOf::Rep;
  const Cell cell =
      look_up(*index, mra.message == mad::MraOf::Req ? Input::RecvMraOfReq : Input::RecvMraOfRep);
  if (!is_known || cell.action != Action::ExtendTimer) {
    drop(DropReason::UnexpectedState);
    return;
  }
  Connection& connection = table_.at(*index);
  be_patient(connection, mra, connection.interval, now);
  enter(*index, cell.next, now);
  events_.emplace_back(
      MraReceived{table_.handle(*index), mra.message, mra.service_timeout, mra.private_data});
}

void Engine::handle(const Address& from, const mad::Dreq& dreq, Instant now) {
  const auto known = table_.find(dreq.remote_comm_id);
  if (!known || table_.at(*known).remote_comm_id != dreq.local_comm_id) {
    // Nothing of ours: the answer lets the peer finish.
    drop(DropReason::UnknownConnection);
    mad::Drep drep;
    drep.tid = dreq.tid;
    drep.local_comm_id = dreq.remote_comm_id;
    drep.remote_comm_id = dreq.local_comm_id;
    drep.private_data = mad::private_data<mad::Drep::kPrivateSize>(config_.identity.span());
    outbox_.send(from, mad::CmKind::Drep, mad::serialize(drep));
    return;
  }
  const auto index = match(from, dreq.remote_comm_id, dreq.local_comm_id);
  if (!index) {
    return;
  }
  Connection& connection = table_.at(*index);
  if (connection.local_qpn != dreq.remote_qpn) {
    drop(DropReason::WrongQpn);
    return;
  }
  switch (look_up(*index, Input::RecvDreq).action) {
    case Action::EstablishAndRelease:
      // Only an established peer releases.
      ++outbox_.counters.established;
      events_.emplace_back(Established{table_.handle(*index), {}});
      take_release(*index, DisconnectCause::ByPeer, dreq, now);
      break;
    case Action::Release:
      take_release(*index, DisconnectCause::ByPeer, dreq, now);
      break;
    case Action::ReleaseCrossing:
      take_release(*index, connection.unreported, dreq, now);
      break;
    case Action::AnswerAgain:
      connection.tid = dreq.tid;
      send_drep(*index, config_.identity.span(), true);
      break;
    case Action::DropDuplicate:
      drop(DropReason::Duplicate);
      break;
    default:
      drop(DropReason::UnexpectedState);
      break;
  }
}

void Engine::take_release(std::uint32_t index, std::optional<DisconnectCause> cause,
                          const mad::Dreq& dreq, Instant now) {
  Connection& connection = table_.at(index);
  connection.tid = dreq.tid;
  const bool answers = connection.policy.answers_release || !cause.has_value();
  if (cause.has_value()) {
    events_.emplace_back(Disconnected{table_.handle(index),
                                      answers ? *cause : DisconnectCause::ByPeer, !answers, 0,
                                      dreq.private_data});
  }
  connection.timers.stop(Timer::Retransmit);
  connection.timers.set(Timer::Deadline, now + config_.disconnect_deadline);
  enter(index, look_up(index, Input::RecvDreq).next, now);
  if (answers) {
    send_drep(index, config_.identity.span(), false);
    enter(index, look_up(index, Input::SendDrep).next, now);
  }
}

void Engine::handle(const Address& from, const mad::Drep& drep, Instant now) {
  const auto index = match(from, drep.remote_comm_id, drep.local_comm_id);
  if (!index) {
    return;
  }
  const Cell cell = look_up(*index, Input::RecvDrep);
  if (cell.action == Action::FinishRelease) {
    const Connection& connection = table_.at(*index);
    sample(release_rtt_, connection, now);
    finish_release(*index, connection.unreported, drep.private_data, 0, now);
  } else {
    drop(cell.action == Action::DropDuplicate ? DropReason::Duplicate
                                              : DropReason::UnexpectedState);
  }
}

}  // namespace wireup::cm
