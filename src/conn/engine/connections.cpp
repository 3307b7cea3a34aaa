// SPDX-License-Identifier: BSD-3-Clause
// The table of connections, and what both sides of a connect share.
#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "cm/engine/ack_timeout.hpp"
#include "conn/engine/engine.hpp"

namespace wireup::conn {

Connection& Engine::add_connection(PeerId peer, Role role, Instant deadline, Instant now) {
  const ConnectionId id(++last_id_);
  Connection& c = connections_[id];
  c.id = id;
  c.peer = peer;
  c.role = role;
  c.timeline.started = now;
  count(c.phase, 1);
  set_deadline(c, deadline);
  peers_[peer].current = id;
  return c;
}

void Engine::erase_connection(ConnectionId id) {
  const auto entry = connections_.find(id);
  WIREUP_CHECK(entry != connections_.end());
  Connection& c = entry->second;
  unbind(c);
  set_deadline(c, std::nullopt);
  count(c.phase, static_cast<std::size_t>(-1));
  if (c.qpn.has_value()) {
    commands_.emplace_back(ReleaseQp{id});
  }
  if (Peer& p = peers_.at(c.peer); p.current == id) {
    p.current.reset();
  }
  connections_.erase(entry);
}

void Engine::enter(Connection& connection, Phase phase) {
  count(connection.phase, static_cast<std::size_t>(-1));
  connection.phase = phase;
  count(phase, 1);
}

/// Adds `change` (1, or its negative modulo 2^n) to the count that `phase` belongs to.
void Engine::count(Phase phase, std::size_t change) noexcept {
  switch (phase) {
    case Phase::Resolving:
    case Phase::Preparing:
    case Phase::Requesting:
    case Phase::Finishing:
    case Phase::Replying:
      pending_count_ += change;
      break;
    case Phase::Ready:
      ready_count_ += change;
      break;
    case Phase::Closing:
    case Phase::Over:
      break;
  }
}

void Engine::set_deadline(Connection& connection, std::optional<Instant> deadline) {
  deadlines_.erase({connection.deadline, connection.id});
  if (deadline.has_value()) {
    connection.deadline = *deadline;
    deadlines_.insert({connection.deadline, connection.id});
  }
}

Connection* Engine::live(ConnectionId id, Phase phase) noexcept {
  const auto c = connections_.find(id);
  return c != connections_.end() && c->second.phase == phase ? &c->second : nullptr;
}

Connection* Engine::owner(cm::Handle handle) noexcept {
  const auto id = by_handle_.find(handle);
  return id != by_handle_.end() ? &connections_.at(id->second) : nullptr;
}

void Engine::bind(Connection& connection, cm::Handle handle) {
  connection.handle = handle;
  by_handle_[handle] = connection.id;
}

void Engine::unbind(Connection& connection) {
  if (connection.handle.has_value()) {
    by_handle_.erase(*connection.handle);
    connection.handle.reset();
  }
  if (connection.comm_id.has_value()) {
    by_comm_id_.erase(*connection.comm_id);
    connection.comm_id.reset();
  }
}

void Engine::request_path(Connection& connection, const Gid& dgid) {
  enter(connection, Phase::Resolving);
  commands_.emplace_back(RequestPath{connection.id, dgid, connection.deadline});
}

/// Own direction's address, rate and level; MTU, PSNs, QPN and timeouts as agreed.
void Engine::connect_qp(Connection& connection) {
  Connection& c = connection;
  const mad::PathRecord& record = c.path->record;
  if (c.role == Role::Loopback) {
    c.remote = RemoteEnd{*c.qpn,
                         c.psn,
                         config_.responder_resources,
                         config_.initiator_depth,
                         config_.retry_count,
                         config_.rnr_retry_count,
                         record.mtu,
                         config_.cm.ca_ack_delay};
  }
  const RemoteEnd& remote = *c.remote;
  QpAttributes& a = c.attributes;
  a.dlid = record.dlid;
  a.sl = record.sl;
  a.static_rate = record.rate;
  a.path_bits = static_cast<std::uint8_t>(record.slid.value() - config_.lid.value());
  a.has_grh = record.hop_limit > 1;
  a.dgid = record.dgid;
  a.flow_label = record.flow_label;
  a.hop_limit = record.hop_limit;
  a.traffic_class = record.traffic_class;
  a.peer_qpn = remote.qpn;
  a.mtu = std::min(record.mtu, remote.mtu);
  a.receive_psn = c.psn;
  a.send_psn = remote.starting_psn;
  a.responder_resources = std::min(config_.responder_resources, remote.initiator_depth);
  a.initiator_depth = std::min(config_.initiator_depth, remote.responder_resources);
  // The REQ brought a whole timeout, the REP only its adapter's share.
  const IbTimeout wanted =
      c.role == Role::Passive
          ? std::max(remote.ack, cm::ack_timeout(IbTimeout(0), record.lifetime()))
          : cm::ack_timeout(remote.ack, record.lifetime());
  a.ack_timeout = std::max(wanted, config_.min_ack_timeout);
  a.retry_count = c.role == Role::Passive ? remote.retry_count : config_.retry_count;
  a.rnr_retry_count = remote.rnr_retry_count;
  enter(c, Phase::Finishing);
  commands_.emplace_back(ConnectQp{c.id, a});
}

void Engine::become_ready(Connection& connection, Instant now) {
  Connection& c = connection;
  Peer& p = peers_.at(c.peer);
  enter(c, Phase::Ready);
  set_deadline(c, std::nullopt);
  c.timeline.ready = now;
  p.closed_epoch = std::max(p.closed_epoch, c.epoch);
  if (c.close_when_ready) {
    disconnect(c, now);
    return;
  }
  forget_wish(c.peer);
  ++counters_.connected;
  c.announced = true;
  events_.emplace_back(Connected{c.peer, c.id});
}

void Engine::drain_cm(Instant now) {
  while (auto event = cm_.poll_event()) {
    std::visit([this, now](const auto& e) { on_event(e, now); }, *event);
  }
  take_transmits();
}

/// Moves the CM's datagrams to our queue. A first REQ or REP is that of `sender`, whose
/// communication id is learnt from it so that retransmissions can be told apart.
void Engine::take_transmits(Connection* sender) {
  constexpr std::size_t kLocalCommIdAt = mad::kHeaderSize;
  while (auto transmit = cm_.poll_transmit()) {
    const CommId comm_id(static_cast<std::uint32_t>(load_be(transmit->bytes, kLocalCommIdAt, 4)));
    const bool opens = transmit->kind == mad::CmKind::Req || transmit->kind == mad::CmKind::Rep;
    if (transmit->is_retransmit) {
      if (const auto id = by_comm_id_.find(comm_id); id != by_comm_id_.end()) {
        ++connections_.at(id->second).retransmits;
      }
    } else if (opens && sender != nullptr) {
      sender->comm_id = comm_id;
      by_comm_id_[comm_id] = sender->id;
    }
    transmits_.push_back(*transmit);
  }
}

Identity Engine::identity(std::uint32_t epoch) const noexcept {
  return {config_.self, epoch, config_.incarnation};
}

}  // namespace wireup::conn
