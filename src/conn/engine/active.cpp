// SPDX-License-Identifier: BSD-3-Clause
// The side that asks: REQ out, REP or refusal in.
#include <algorithm>

#include "conn/engine/engine.hpp"
#include "conn/engine/rules.hpp"
#include "mad/rate.hpp"

namespace wireup::conn {
namespace {

Errc kind_of_refusal(std::uint8_t refusal) noexcept {
  switch (static_cast<Refusal>(refusal)) {
    case Refusal::WrongIncarnation:
    case Refusal::WrongReceiver:
    case Refusal::UnknownSender:
      return Errc::Stale;
    case Refusal::Closing:
      return Errc::PeerGone;
    case Refusal::WireVersion:
      return Errc::Unsupported;
    case Refusal::NoPath:
      return Errc::PathUnresolved;
    case Refusal::Malformed:
    case Refusal::WrongJob:
    case Refusal::NoQueuePair:
    case Refusal::Cancelled:
    case Refusal::WrongPort:
      return Errc::Rejected;
  }
  return Errc::Rejected;
}

/// May another attempt with another queue pair or a newer request succeed?
bool may_pass(const cm::Rejected& event) noexcept {
  switch (static_cast<mad::RejReason>(event.reason)) {
    case mad::RejReason::StaleConnection:
    case mad::RejReason::InvalidCommId:
    case mad::RejReason::DuplicateLocalCommId:
    case mad::RejReason::Timeout:
      return true;
    case mad::RejReason::ConsumerReject: {
      const auto data = parse_refusal(event.private_data);
      return data && data->refusal == static_cast<std::uint8_t>(Refusal::Cancelled);
    }
    default:
      return false;
  }
}

Error rejection(std::uint32_t rank, const cm::Rejected& event) {
  if (event.reason == static_cast<std::uint16_t>(mad::RejReason::ConsumerReject)) {
    if (const auto data = parse_refusal(event.private_data)) {
      const auto sentence = refusal_sentence(data->refusal);
      return Error::make(kind_of_refusal(data->refusal), "rank %u refused (%u): %.*s", rank,
                         static_cast<unsigned>(data->refusal), static_cast<int>(sentence.size()),
                         sentence.data());
    }
  }
  const auto sentence = mad::rej_reason_sentence(event.reason);
  const Errc kind = event.reason == static_cast<std::uint16_t>(mad::RejReason::Timeout)
                        ? Errc::Timeout
                        : Errc::Rejected;
  return Error::make(kind, "rank %u sent REJ with reason %u: %.*s", rank,
                     static_cast<unsigned>(event.reason), static_cast<int>(sentence.size()),
                     sentence.data());
}

}  // namespace

void Engine::send_request(Connection& connection, Instant now) {
  Connection& c = connection;
  Peer& p = peers_.at(c.peer);
  c.request_epoch = c.epoch = ++p.epoch;

  cm::ConnectParams params;
  params.to = address_of(c.path->record, config_.lid, p.card->cm_qpn);
  params.service_id = config_.service_id;
  params.local_ca_guid = config_.ca_guid;
  params.qpn = *c.qpn;
  params.starting_psn = c.psn;
  params.path = c.path->record;
  params.responder_resources = config_.responder_resources;
  params.initiator_depth = config_.initiator_depth;
  params.retry_count = mad::RetryCount(config_.retry_count);
  params.rnr_retry_count = mad::RnrRetryCount(config_.rnr_retry_count);
  params.deadline = c.deadline;
  const auto data = serialize(RequestData{identity(c.epoch), c.peer, c.incarnation});
  params.private_data = *decltype(params.private_data)::make(data);

  auto handle = cm_.connect(params, now);
  if (!handle) {
    give_up(c.id, {.step = Step::Request, .error = handle.error()}, now);
    return;
  }
  bind(c, *handle);
  take_transmits(&c);
  enter(c, Phase::Requesting);
  set_deadline(c, std::nullopt);
}

void Engine::on_event(const cm::RepReceived& event, Instant now) {
  Connection* c = owner(event.handle);
  if (c == nullptr || c->phase != Phase::Requesting) {
    return;
  }
  const auto data = parse_reply(event.rep.private_data);
  if (!data) {
    give_up(c->id, {.step = Step::Reply, .error = data.error(), .attempts = 1}, now);
    return;
  }
  if (data->identity.sender != c->peer || data->identity.incarnation != c->incarnation ||
      !mad::mtu_bytes(data->mtu).has_value()) {
    give_up(c->id,
            {.step = Step::Reply,
             .error = Error::make(
                 Errc::Stale,
                 "the REP for rank %u is from rank %u, incarnation 0x%016llx (expected "
                 "0x%016llx), MTU code %u",
                 c->peer.rank, data->identity.sender.rank,
                 static_cast<unsigned long long>(data->identity.incarnation),
                 static_cast<unsigned long long>(c->incarnation), static_cast<unsigned>(data->mtu)),
             .attempts = 1},
            now);
    return;
  }
  Peer& p = peers_.at(c->peer);
  c->epoch = std::max(c->epoch, data->identity.epoch);
  p.epoch = std::max(p.epoch, c->epoch);
  c->remote = RemoteEnd{event.rep.local_qpn,
                        event.rep.starting_psn,
                        event.rep.responder_resources,
                        event.rep.initiator_depth,
                        config_.retry_count,
                        event.rep.rnr_retry_count.value(),
                        data->mtu,
                        event.rep.target_ack_delay};
  connect_qp(*c);
}

void Engine::on_event(const cm::Rejected& event, Instant now) {
  Connection* c = owner(event.handle);
  if (c == nullptr) {
    return;
  }
  const Step step = c->role == Role::Passive       ? Step::Reply
                    : c->phase == Phase::Finishing ? Step::ReadyToUse
                                                   : Step::Request;
  give_up(c->id,
          {.step = step,
           .error = rejection(c->peer.rank, event),
           .attempts = 1 + c->retransmits,
           .may_pass = may_pass(event)},
          now);
}

void Engine::on_event(const cm::Failed& event, Instant now) {
  Connection* c = owner(event.handle);
  if (c == nullptr) {
    return;
  }
  const bool own_fault = event.step == cm::Step::Accept || event.step == cm::Step::Establish;
  const Step step = own_fault                       ? Step::Qp
                    : event.step == cm::Step::Reply ? Step::Request
                                                    : Step::ReadyToUse;
  Error error;
  if (own_fault) {
    error = Error::make(Errc::Timeout, "the queue pair for rank %u was not ready in time",
                        c->peer.rank);
  } else {
    const auto& record = c->path->record;
    error = Error::make(
        Errc::Timeout,
        "rank %u (LID %u, GID %s) did not answer %u %s from %s (LID %u, P_Key 0x%04x): its process "
        "is stopped, gone, or makes no progress",
        c->peer.rank, record.dlid.value(), to_text(record.dgid).data(), event.attempts,
        step == Step::Request ? "requests (REQ)" : "replies (REP)", config_.port_name.c_str(),
        config_.lid.value(), config_.pkey.value());
  }
  give_up(c->id, {.step = step, .error = error, .attempts = event.attempts, .may_pass = true}, now);
}

}  // namespace wireup::conn
