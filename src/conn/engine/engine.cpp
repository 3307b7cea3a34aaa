// SPDX-License-Identifier: BSD-3-Clause
// Commands, answers of the driver, and outputs.
#include "conn/engine/engine.hpp"

#include <algorithm>
#include <utility>

#include "conn/engine/rules.hpp"

namespace wireup::conn {
namespace {

/// What an MRA asks of a peer whose REQ came again while its connection waits here for a queue pair
/// or a path: 4.096 us * 2^18, a second.
constexpr IbTimeout kPatience{18};

cm::Config with_identity(const Config& config) {
  cm::Config result = config.cm;
  const auto bytes = serialize(Identity{config.self, 0, config.incarnation});
  result.identity = *decltype(result.identity)::make(bytes);
  return result;
}

template <typename T>
std::optional<T> take_front(std::deque<T>& queue) {
  if (queue.empty()) {
    return std::nullopt;
  }
  std::optional<T> front(std::move(queue.front()));
  queue.pop_front();
  return front;
}

}  // namespace

std::string_view step_name(Step step) noexcept {
  switch (step) {
#define WIREUP_CONN_STEP_CASE(name, number, text) \
  case Step::name:                                \
    return text;
    WIREUP_CONN_STEPS(WIREUP_CONN_STEP_CASE)
#undef WIREUP_CONN_STEP_CASE
  }
  return "unknown";
}

Engine::Engine(const Config& config, Rng rng)
    : config_(config), rng_(rng), cm_(with_identity(config), Rng(rng_.next())) {
  cm::Policy policy;
  policy.patience = kPatience;
  cm_.listen(config_.service_id, policy);
}

Result<> Engine::connect(PeerId peer, Instant deadline, Instant now) {
  if (closing_) {
    return fail(
        Error::make(Errc::InvalidState, "connect to rank %u: the context is closing", peer.rank));
  }
  if (auto allowed = check_peer(config_, peer, deadline, now, "connect to"); !allowed) {
    return allowed;
  }
  Peer& p = peers_[peer];
  if (p.current.has_value() && connections_.at(*p.current).phase == Phase::Ready) {
    return {};
  }
  const bool extends = p.wanted && deadline > p.deadline;
  if (!p.wanted) {
    p.wanted = true;
    p.wanted_since = now;
    p.attempts = 0;
    p.deadline = deadline;
    wishes_.insert({p.deadline, peer});
  } else if (extends) {
    wishes_.erase({p.deadline, peer});
    p.deadline = deadline;
    wishes_.insert({p.deadline, peer});
  }
  if (!p.current.has_value() && (!p.card_requested || extends)) {
    start(peer, now);
  }
  drain_cm(now);
  return {};
}

/// Begins an attempt at a wanted peer that has no connection.
void Engine::start(PeerId id, Instant now) {
  Peer& p = peers_.at(id);
  if (id == config_.self) {
    ++p.attempts;
    Connection& c = add_connection(id, Role::Loopback, p.deadline, now);
    c.timeline = {p.wanted_since, now, std::nullopt, std::nullopt};
    c.incarnation = config_.incarnation;
    request_path(c, config_.gid);
    return;
  }
  if (!p.card.has_value()) {
    p.card_requested = true;
    commands_.emplace_back(RequestCard{id, p.deadline});
    return;
  }
  ++p.attempts;
  Connection& c = add_connection(id, Role::Active, p.deadline, now);
  c.timeline = {p.wanted_since, now, std::nullopt, std::nullopt};
  c.incarnation = p.card->incarnation;
  request_path(c, p.card->gid);
}

void Engine::handle_card(PeerId peer, const Result<PeerCard>& card, Instant now) {
  const auto entry = peers_.find(peer);
  if (entry == peers_.end()) {
    return;
  }
  Peer& p = entry->second;
  p.card_requested = false;
  const bool waiting = p.wanted && !p.current.has_value();
  if (!card) {
    if (waiting) {
      report_failure(peer, {.step = Step::Card, .error = card.error(), .attempts = p.attempts});
    }
    return;
  }
  if (p.incarnation.has_value() && *p.incarnation != card->incarnation) {
    if (waiting) {
      report_failure(peer, {.step = Step::Card,
                            .error = Error::make(
                                Errc::Stale,
                                "the card of rank %u is of incarnation 0x%016llx, but the process "
                                "that asked for a connection is 0x%016llx",
                                peer.rank, static_cast<unsigned long long>(card->incarnation),
                                static_cast<unsigned long long>(*p.incarnation)),
                            .attempts = p.attempts});
    }
    return;
  }
  p.card = *card;
  p.incarnation = card->incarnation;
  if (waiting) {
    start(peer, now);
  }
  drain_cm(now);
}

void Engine::handle_path(ConnectionId id, const Result<Path>& path, Instant now) {
  Connection* c = live(id, Phase::Resolving);
  if (c == nullptr) {
    return;
  }
  const Result<> usable = path ? check_record(config_, path->record) : fail(path.error());
  if (!usable) {
    give_up(id, {.step = Step::Path, .error = usable.error()}, now);
  } else {
    c->path = *path;
    c->path->record.mtu = std::min(path->record.mtu, config_.mtu);
    c->timeline.path = now;
    enter(*c, Phase::Preparing);
    commands_.emplace_back(CreateQp{id});
  }
  drain_cm(now);
}

void Engine::set_port(Lid lid, std::uint8_t lmc) noexcept {
  config_.lid = lid;
  config_.lmc = lmc;
}

void Engine::handle_qp_created(ConnectionId id, const Result<Qpn>& qpn, Instant now) {
  Connection* c = live(id, Phase::Preparing);
  if (c == nullptr) {
    return;
  }
  if (!qpn) {
    give_up(id, {.step = Step::Qp, .error = qpn.error()}, now);
  } else {
    c->qpn = *qpn;
    c->psn = Psn(static_cast<std::uint32_t>(rng_.next() & Psn::kMax));
    if (c->role == Role::Active) {
      send_request(*c, now);
    } else {
      connect_qp(*c);
    }
  }
  drain_cm(now);
}

void Engine::handle_qp_connected(ConnectionId id, const Result<>& done, Instant now) {
  Connection* c = live(id, Phase::Finishing);
  if (c == nullptr) {
    return;
  }
  if (!done) {
    give_up(id, {.step = Step::Qp, .error = done.error()}, now);
  } else if (c->role == Role::Passive) {
    send_reply(*c, now);
  } else {
    const Result<> told = c->role == Role::Loopback
                              ? Result<>{}
                              : cm_.establish(*c->handle, serialize(identity(c->epoch)), now);
    if (told) {
      become_ready(*c, now);
    } else {
      give_up(id, {.step = Step::Reply, .error = told.error(), .may_pass = true}, now);
    }
  }
  drain_cm(now);
}

void Engine::handle_communication_established(ConnectionId id, Instant now) {
  if (Connection* c = live(id, Phase::Replying); c != nullptr) {
    // The RTU may have come in the meantime; then there is nothing to do.
    static_cast<void>(cm_.notify_established(*c->handle, now));
    drain_cm(now);
  }
}

void Engine::handle_mad(const cm::Address& from, std::span<const std::uint8_t> bytes, Instant now) {
  cm_.handle_mad(from, bytes, now);
  drain_cm(now);
}

void Engine::handle_timeout(Instant now) {
  cm_.handle_timeout(now);
  drain_cm(now);
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    expire_connection(deadlines_.begin()->second, now);
  }
  while (!wishes_.empty() && wishes_.begin()->first <= now) {
    expire_wish(wishes_.begin()->second, now);
  }
  drain_cm(now);
}

std::optional<Command> Engine::poll_command() {
  return take_front(commands_);
}
std::optional<cm::Transmit> Engine::poll_transmit() {
  return take_front(transmits_);
}
std::optional<Event> Engine::poll_event() {
  return take_front(events_);
}

std::optional<Instant> Engine::poll_timeout() const noexcept {
  std::optional<Instant> next = cm_.poll_timeout();
  const auto consider = [&next](Instant at) { next = next.has_value() ? std::min(*next, at) : at; };
  if (!deadlines_.empty()) {
    consider(deadlines_.begin()->first);
  }
  if (!wishes_.empty()) {
    consider(wishes_.begin()->first);
  }
  return next;
}

const Connection* Engine::ready(PeerId peer) const noexcept {
  const auto p = peers_.find(peer);
  if (p == peers_.end() || !p->second.current.has_value()) {
    return nullptr;
  }
  const Connection* c = find(*p->second.current);
  return c != nullptr && c->phase == Phase::Ready ? c : nullptr;
}

const Connection* Engine::find(ConnectionId id) const noexcept {
  const auto c = connections_.find(id);
  return c != connections_.end() ? &c->second : nullptr;
}

}  // namespace wireup::conn
