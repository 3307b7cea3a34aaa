// SPDX-License-Identifier: BSD-3-Clause
// How connections and attempts end.
#include <algorithm>
#include <utility>

#include "conn/engine/engine.hpp"

namespace wireup::conn {
namespace {

/// Attempts per connect() that ended for reasons which another attempt may cure.
constexpr unsigned kMaxAttempts = 16;

Step step_of(Phase phase) noexcept {
  switch (phase) {
    case Phase::Resolving:
      return Step::Path;
    case Phase::Preparing:
    case Phase::Finishing:
      return Step::Qp;
    case Phase::Requesting:
      return Step::Request;
    case Phase::Replying:
      return Step::ReadyToUse;
    case Phase::Ready:
    case Phase::Closing:
    case Phase::Over:
      return Step::Disconnect;
  }
  return Step::None;
}

EndReason reason_of(cm::DisconnectCause cause) noexcept {
  switch (cause) {
    case cm::DisconnectCause::ByUs:
      return EndReason::Local;
    case cm::DisconnectCause::ByPeer:
    case cm::DisconnectCause::Rejected:
      return EndReason::Peer;
    case cm::DisconnectCause::Timeout:
      return EndReason::NoAnswer;
    case cm::DisconnectCause::Stale:
      return EndReason::Replaced;
  }
  return EndReason::None;
}

/// May the CM connection still be refused, that is, is its peer waiting for us?
bool is_open(std::optional<cm::State> state) noexcept {
  return state.has_value() && *state != cm::State::Timewait && *state != cm::State::DreqRcvd &&
         *state != cm::State::DreqSent && *state != cm::State::Established;
}

}  // namespace

Result<> Engine::close(PeerId peer, Instant now) {
  const auto entry = peers_.find(peer);
  const bool exists =
      entry != peers_.end() && (entry->second.wanted || entry->second.current.has_value());
  if (!exists) {
    return fail(
        Error::make(Errc::InvalidState, "close: there is no connection to rank %u", peer.rank));
  }
  forget_wish(peer);
  if (!entry->second.current.has_value()) {
    events_.emplace_back(Disconnected{peer, ConnectionId{}, EndReason::Local});
    return {};
  }
  Connection& c = connections_.at(*entry->second.current);
  switch (c.phase) {
    case Phase::Ready:
      disconnect(c, now);
      break;
    case Phase::Closing:
    case Phase::Over:
      break;  // the event is on its way
    case Phase::Replying:
      c.close_when_ready = true;
      break;
    case Phase::Resolving:
    case Phase::Preparing:
    case Phase::Requesting:
    case Phase::Finishing:
      drop_attempt(c.id, Refusal::Cancelled, now);
      events_.emplace_back(Disconnected{peer, ConnectionId{}, EndReason::Local});
      break;
  }
  drain_cm(now);
  return {};
}

/// Starts the release of a ready connection.
void Engine::disconnect(Connection& connection, Instant now) {
  Connection& c = connection;
  if (c.role != Role::Loopback &&
      cm_.disconnect(*c.handle, serialize(identity(c.epoch)), now).has_value()) {
    enter(c, Phase::Closing);
  } else {
    end(c, EndReason::Local, now);  // to oneself, or the CM has given it up already
  }
}

void Engine::close_all(Instant now) {
  closing_ = true;
  for (const auto& [id, peer] : peers_) {
    if (peer.wanted || peer.current.has_value()) {
      static_cast<void>(close(id, now));  // cannot fail: there is something to close
    }
  }
}

bool Engine::is_closed() const noexcept {
  return closing_ && std::all_of(connections_.begin(), connections_.end(), [](const auto& entry) {
           return entry.second.phase == Phase::Over;
         });
}

/// The attempt has failed. What the peer began says nothing of what we can do, so then, and when
/// another attempt may help, one follows for a user who still waits.
void Engine::give_up(ConnectionId id, const Failure& failure, Instant now) {
  ++counters_.failed;
  const Connection& c = connections_.at(id);
  const PeerId peer = c.peer;
  const bool may_help = c.role == Role::Passive || failure.may_pass;
  const Refusal refusal = failure.step == Step::Path ? Refusal::NoPath
                          : failure.step == Step::Qp ? Refusal::NoQueuePair
                                                     : Refusal::Cancelled;
  drop_attempt(id, refusal, now);

  const Peer& p = peers_.at(peer);
  if (!p.wanted) {
    return;
  }
  if (may_help && now < p.deadline && p.attempts < kMaxAttempts && !closing_) {
    start(peer, now);
  } else {
    report_failure(peer, failure);
  }
}

/// Ends an attempt without a word to the user; the peer is told when it waits.
void Engine::drop_attempt(ConnectionId id, Refusal refusal, Instant now) {
  Connection& c = connections_.at(id);
  if (c.close_when_ready) {
    events_.emplace_back(Disconnected{c.peer, ConnectionId{}, EndReason::Local});
  }
  if (c.handle.has_value() && is_open(cm_.state(*c.handle))) {
    const auto data = serialize(RefusalData{identity(c.epoch), static_cast<std::uint8_t>(refusal)});
    if (!cm_.reject(*c.handle, mad::RejReason::ConsumerReject, {}, data, now)) {
      cm_.abandon(*c.handle, now);
    }
  }
  const bool rests = c.handle.has_value() && cm_.state(*c.handle).has_value();
  if (!rests) {
    erase_connection(id);
    return;
  }
  if (Peer& p = peers_.at(c.peer); p.current == id) {
    p.current.reset();
  }
  set_deadline(c, std::nullopt);
  enter(c, Phase::Over);
  commands_.emplace_back(BreakQp{id});
}

void Engine::report_failure(PeerId id, const Failure& failure) {
  forget_wish(id);
  events_.emplace_back(Failed{id, failure.step, failure.error, failure.attempts});
}

void Engine::forget_wish(PeerId id) {
  Peer& p = peers_.at(id);
  if (p.wanted) {
    wishes_.erase({p.deadline, id});
    p.wanted = false;
  }
}

/// A connection that was ready is over.
void Engine::end(Connection& connection, EndReason reason, Instant now) {
  Connection& c = connection;
  const ConnectionId id = c.id;
  const PeerId peer = c.peer;
  Peer& p = peers_.at(peer);
  enter(c, Phase::Over);
  commands_.emplace_back(BreakQp{id});
  counters_.disconnected += c.announced ? 1 : 0;
  events_.emplace_back(Disconnected{peer, c.announced ? id : ConnectionId{}, reason});
  if (p.current == id) {
    p.current.reset();
  }
  const bool rests = c.handle.has_value() && cm_.state(*c.handle).has_value();
  if (!rests) {
    erase_connection(id);
  }
  if (p.wanted && !p.current.has_value() && !closing_) {
    start(peer, now);
  }
}

void Engine::on_event(const cm::Disconnected& event, Instant now) {
  Connection* c = owner(event.handle);
  if (c == nullptr) {
    return;
  }
  switch (c->phase) {
    case Phase::Ready:
    case Phase::Closing:
      end(*c, reason_of(event.cause), now);
      break;
    case Phase::Replying:
      // The RTU was lost, and the peer is through with the connection already.
      if (!c->close_when_ready) {
        become_ready(*c, now);
      }
      end(*c, reason_of(event.cause), now);
      break;
    case Phase::Resolving:
    case Phase::Preparing:
    case Phase::Requesting:
    case Phase::Finishing:
    case Phase::Over:
      break;
  }
}

void Engine::on_event(const cm::TimewaitExit& event, Instant /*now*/) {
  if (Connection* c = owner(event.handle); c != nullptr) {
    erase_connection(c->id);
  }
}

void Engine::expire_connection(ConnectionId id, Instant now) {
  const Connection& c = connections_.at(id);
  const char* what = c.phase == Phase::Resolving ? "no path to" : "no queue pair ready for";
  give_up(
      id,
      {.step = step_of(c.phase),
       .error = Error::make(
           Errc::Timeout, "%s rank %u before the deadline, from %s (LID %u, P_Key 0x%04x)", what,
           c.peer.rank, config_.port_name.c_str(), config_.lid.value(), config_.pkey.value()),
       .may_pass = true},
      now);
}

/// The deadline of a connect() has come.
void Engine::expire_wish(PeerId id, Instant now) {
  const Peer& p = peers_.at(id);
  if (!p.current.has_value()) {
    report_failure(
        id, {.step = Step::Card,
             .error = Error::make(Errc::CardMissing,
                                  "rank %u has published no card before the deadline: it has not "
                                  "opened a context, or has ended",
                                  id.rank),
             .attempts = p.attempts});
    return;
  }
  const ConnectionId current = *p.current;
  const Connection& c = connections_.at(current);
  const Step step = step_of(c.phase);
  const auto text = step_name(step);
  // What the peer has begun goes on, and so does what is being closed.
  const bool ours =
      c.role != Role::Passive && (c.phase == Phase::Resolving || c.phase == Phase::Preparing ||
                                  c.phase == Phase::Requesting || c.phase == Phase::Finishing);
  report_failure(id, {.step = step,
                      .error = Error::make(Errc::Timeout,
                                           "the connection to rank %u was not ready before the "
                                           "deadline; it stood at step %.*s",
                                           id.rank, static_cast<int>(text.size()), text.data()),
                      .attempts = 1 + c.retransmits});
  if (ours) {
    drop_attempt(current, Refusal::Cancelled, now);
  }
}

}  // namespace wireup::conn
