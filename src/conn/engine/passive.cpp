// SPDX-License-Identifier: BSD-3-Clause
// The side that is asked: REQ in, REP or refusal out, RTU in.
#include <algorithm>

#include "conn/engine/engine.hpp"
#include "mad/rate.hpp"

namespace wireup::conn {

void Engine::on_event(const cm::ReqReceived& event, Instant now) {
  const auto data = examine(event);
  if (!data) {
    refuse(event.handle, data.error(), 0, now);
    return;
  }
  const Identity& sender = data->identity;
  Peer& p = peers_[sender.sender];
  if (p.incarnation.has_value() && *p.incarnation != sender.incarnation) {
    refuse(event.handle, Refusal::UnknownSender, sender.epoch, now);
    return;
  }
  if (sender.epoch <= p.closed_epoch) {
    ++counters_.stale_requests;
    cm_.abandon(event.handle, now);
    return;
  }
  admit(event, *data, now);
}

/// All that can be said of a REQ without knowing its sender.
tl::expected<RequestData, Refusal> Engine::examine(const cm::ReqReceived& event) const {
  if (closing_) {
    return tl::unexpected(Refusal::Closing);
  }
  const auto data = parse_request(event.req.private_data);
  if (!data) {
    return tl::unexpected(data.error().is(Errc::Unsupported) ? Refusal::WireVersion
                                                             : Refusal::Malformed);
  }
  const PeerId sender = data->identity.sender;
  if (sender.job != config_.self.job || data->receiver.job != config_.self.job) {
    return tl::unexpected(Refusal::WrongJob);
  }
  if (data->receiver != config_.self) {
    return tl::unexpected(Refusal::WrongReceiver);
  }
  if (data->receiver_incarnation != config_.incarnation) {
    return tl::unexpected(Refusal::WrongIncarnation);
  }
  if (event.req.primary.remote_gid != config_.gid || !config_.pkey.matches(event.req.pkey)) {
    return tl::unexpected(Refusal::WrongPort);
  }
  if (sender == config_.self || sender.rank >= config_.job_size || data->identity.epoch == 0 ||
      event.req.transport_service != mad::TransportService::Rc ||
      !mad::mtu_bytes(event.req.path_mtu.value()).has_value()) {
    return tl::unexpected(Refusal::Malformed);
  }
  return *data;
}

/// Decides what a REQ of a known sender means beside the connection that there may be.
void Engine::admit(const cm::ReqReceived& event, const RequestData& data, Instant now) {
  const PeerId sender = data.identity.sender;
  const auto current = peers_.at(sender).current;
  if (!current.has_value()) {
    accept_as_new(event, data, now);
    return;
  }
  Connection& c = connections_.at(*current);
  switch (c.phase) {
    case Phase::Resolving:
    case Phase::Preparing:
      if (c.role == Role::Active) {
        accept_with(c, event, data, now);  // our REQ is not out yet: it never will be
        return;
      }
      break;
    case Phase::Requesting:
      ++counters_.crossed;
      if (config_.self < sender) {
        cm_.abandon(event.handle, now);  // ours counts, and the peer knows
        return;
      }
      cm_.abandon(*c.handle, now);
      unbind(c);
      accept_with(c, event, data, now);
      return;
    case Phase::Finishing:
      if (c.role == Role::Active) {
        cm_.abandon(event.handle, now);  // it crossed with ours, which the peer has accepted
        return;
      }
      break;
    case Phase::Replying:
      break;
    case Phase::Ready:
      // Not a late duplicate (its epoch is larger), so the peer knows this connection no more. The
      // DREQ lets the CM give it the rest that its queue pair number needs.
      static_cast<void>(cm_.disconnect(*c.handle, serialize(identity(c.epoch)), now));
      end(c, EndReason::Replaced, now);
      accept_as_new(event, data, now);
      return;
    case Phase::Closing:
      end(c, EndReason::Local, now);  // the peer has seen our DREQ, or it would not ask again
      accept_as_new(event, data, now);
      return;
    case Phase::Over:
      return;  // never current
  }
  // A second REQ while the first is being answered.
  if (data.identity.epoch <= c.request_epoch) {
    ++counters_.stale_requests;
    cm_.abandon(event.handle, now);
    return;
  }
  drop_attempt(c.id, Refusal::Cancelled, now);
  accept_as_new(event, data, now);
}

void Engine::accept_as_new(const cm::ReqReceived& event, const RequestData& data, Instant now) {
  const PeerId sender = data.identity.sender;
  if (peers_.at(sender).current.has_value()) {
    // Ending the old connection has started a wanted one, whose REQ cannot be out yet.
    accept_with(connections_.at(*peers_.at(sender).current), event, data, now);
    return;
  }
  Connection& c = add_connection(sender, Role::Passive, now + config_.accept_timeout, now);
  c.timeline.card = now;
  accept_with(c, event, data, now);
}

void Engine::accept_with(Connection& connection, const cm::ReqReceived& event,
                         const RequestData& data, Instant now) {
  Connection& c = connection;
  Peer& p = peers_.at(c.peer);
  const bool path_asked = c.role == Role::Active;
  c.role = Role::Passive;
  bind(c, event.handle);
  c.incarnation = data.identity.incarnation;
  p.incarnation = c.incarnation;
  c.request_epoch = data.identity.epoch;
  p.epoch = std::max(p.epoch, c.request_epoch);
  c.epoch = p.epoch;
  c.remote = RemoteEnd{event.req.local_qpn,           event.req.starting_psn,
                       event.req.responder_resources, event.req.initiator_depth,
                       event.req.retry_count.value(), event.req.rnr_retry_count.value(),
                       event.req.path_mtu.value(),    event.req.primary.local_ack_timeout};
  set_deadline(c, std::max(c.deadline, now + config_.accept_timeout));
  if (c.qpn.has_value()) {
    connect_qp(c);
  } else if (!path_asked) {
    request_path(c, event.req.primary.local_gid);
  }
  // Otherwise the path or the queue pair that we have asked for will move it on.
}

void Engine::send_reply(Connection& connection, Instant now) {
  Connection& c = connection;
  cm::AcceptParams params;
  params.local_ca_guid = config_.ca_guid;
  params.qpn = *c.qpn;
  params.starting_psn = c.psn;
  params.responder_resources = c.attributes.responder_resources;
  params.initiator_depth = c.attributes.initiator_depth;
  params.rnr_retry_count = mad::RnrRetryCount(config_.rnr_retry_count);
  params.deadline = c.deadline;
  const auto data = serialize(ReplyData{identity(c.epoch), c.attributes.mtu});
  params.private_data = *decltype(params.private_data)::make(data);
  if (auto sent = cm_.accept(*c.handle, params, now); !sent) {
    give_up(c.id, {.step = Step::Reply, .error = sent.error()}, now);
    return;
  }
  take_transmits(&c);
  enter(c, Phase::Replying);
  set_deadline(c, std::nullopt);
}

void Engine::refuse(cm::Handle handle, Refusal refusal, std::uint32_t epoch, Instant now) {
  ++counters_.refused;
  const auto data = serialize(RefusalData{identity(epoch), static_cast<std::uint8_t>(refusal)});
  // A handle that ended in the meantime needs no refusal.
  static_cast<void>(cm_.reject(handle, mad::RejReason::ConsumerReject, {}, data, now));
}

void Engine::on_event(const cm::Established& event, Instant now) {
  Connection* c = owner(event.handle);
  if (c != nullptr && c->phase == Phase::Replying) {
    become_ready(*c, now);
  }
}

}  // namespace wireup::conn
