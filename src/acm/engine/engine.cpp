// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/engine.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace wireup::acm {

Engine::Engine(const Config& config, const PortIdentity& port, Rng rng, Instant now,
               const std::vector<mad::AcmAddress>& locals)
    : config_(config),
      port_(port),
      rng_(rng),
      locals_(locals),
      groups_(config, port, now),
      queries_(config),
      bulk_(config, now),
      protocol_(bulk_.protocol(config, nullptr, now)) {
  WIREUP_CHECK(validate(config).has_value());
}

PathLearned Engine::local_learned(const Target& target) const noexcept {
  return {target.address, local_path(port_), true, target.traffic_class, PathOrigin::Local};
}

Result<> Engine::resolve(const mad::AcmAddress& address, Instant deadline, Instant now,
                         std::uint8_t traffic_class) {
  const auto& classes = groups_.traffic_classes();
  if (!std::binary_search(classes.begin(), classes.end(), traffic_class)) {
    return fail(Error::make(Errc::InvalidArgument,
                            "no ACM group of traffic class %u: configure one, or ask for class 0",
                            traffic_class));
  }
  const Target target{address, traffic_class};
  if (is_local(address)) {
    events_.push_back(local_learned(target));
    return {};
  }
  copy_from_gid(target);
  if (Entry* entry = entries_.find(target)) {
    switch (entry->state) {
      case EntryState::Ready:
        if (entry->due > now) {
          events_.push_back(
              PathLearned{address, entry->record, true, traffic_class, entry->origin});
          return {};
        }
        break;
      case EntryState::Absent:
        if (entry->due > now) {
          events_.push_back(PathUnresolved{address, UnresolvedReason::Absent, 0, traffic_class});
          return {};
        }
        break;
      case EntryState::Known:
        if (entry->due > now) {
          entry->deadline = deadline;
          want_route(target, *entry, now);
          return {};
        }
        break;
      case EntryState::Queued:
      case EntryState::Asked:
      case EntryState::Routing:
        if (deadline > entry->deadline) {
          entry->deadline = deadline;
          if (entry->state != EntryState::Asked) {
            entries_.schedule(target, *entry, deadline);
          }
        }
        return {};
    }
    erase(target);
  }
  if (asks_sa_by_gid(target)) {
    if (!make_room()) {
      return fail(Error::make(Errc::Busy, "%zu addresses are being resolved, the limit",
                              entries_.pending()));
    }
    ask_sa_by_gid(target, deadline, now);
    return {};
  }
  if (groups_.is_hopeless(config_.join_patience, now)) {
    ++counters_.unresolved;
    events_.push_back(PathUnresolved{address, UnresolvedReason::NotJoined, 0, traffic_class});
    return {};
  }
  if (!make_room()) {
    return fail(Error::make(Errc::Busy, "%zu addresses are being resolved, the limit of a resolver",
                            entries_.pending()));
  }
  Entry& entry = entries_.insert(target);
  entry.deadline = deadline;
  entries_.schedule(target, entry, deadline);
  enqueue(target);
  start_queued(now);
  return {};
}

void Engine::path_failed(const mad::AcmAddress& address) {
  std::optional<Peer> peer;
  for (const std::uint8_t traffic_class : groups_.traffic_classes()) {
    const Entry* entry = entries_.find({address, traffic_class});
    if (entry != nullptr && entry->peer.has_value()) {
      peer = entry->peer;
    }
  }
  if (!peer.has_value()) {
    return;
  }
  for (const Target& target : entries_.targets_of(peer->gid)) {
    const Entry& entry = *entries_.find(target);
    // Who waits for a path of the SA gets a new one.
    if (entry.peer.has_value() && !entry.is_pending()) {
      erase(target);
    }
  }
}

void Engine::set_locals(const std::vector<mad::AcmAddress>& locals) {
  locals_ = LocalAddresses(locals);
  answer_locals();
}

/// What has become an address of this port is no entry any more.
void Engine::answer_locals() {
  std::vector<Target> found;
  entries_.for_each([&](const Target& target, const Entry&) {
    if (is_local(target.address)) {
      found.push_back(target);
    }
  });
  for (const Target& target : found) {
    if (entries_.find(target)->is_pending()) {
      events_.push_back(local_learned(target));
    }
    erase(target);
  }
}

void Engine::port_changed(const PortIdentity& port, Instant now) {
  port_ = port;
  groups_ = Groups(config_, port_, now);
  announcing_ = false;
  transmits_.clear();
  queries_.clear();
  returning_.clear();
  gone_.clear();
  bulk_.restart(config_, rng_, now);
  forget_learned();
  // What was asked is asked again from the start when the new groups are joined.
  entries_.for_each([&](const Target& target, Entry& entry) {
    if (entry.is_pending() && entry.state != EntryState::Queued) {
      release(entry);
      entries_.set_peer(target, entry, std::nullopt);
      entry.heard.reset();
      entry.state = EntryState::Queued;
      entry.attempts = 0;
      entries_.schedule(target, entry, entry.deadline);
      enqueue(target);
    }
  });
  answer_locals();
}

void Engine::rejoin(Instant now) {
  groups_.rejoin(now);
}

std::optional<JoinCommand> Engine::poll_join(Instant now) {
  return groups_.poll_join(port_, now);
}

void Engine::handle_join_reply(const mad::McMemberRecord& record, Instant now) {
  const auto outcome = groups_.handle_reply(record, config_, rng_, now);
  if (!outcome.has_value()) {
    ++counters_.joins_failed;
  } else {
    if (outcome->attach) {
      events_.push_back(GroupJoined{record.mgid, record.mlid});
    }
    if (outcome->voids_paths) {
      forget_learned();
    }
  }
  groups_changed(now);
}

void Engine::handle_join_failure(const Gid& mgid, JoinFailure failure, Instant now) {
  // Both kinds are tried again: what the SA refuses now it may grant after its next sweep.
  static_cast<void>(failure);
  if (groups_.handle_failure(mgid, config_, rng_, now)) {
    ++counters_.joins_failed;
  }
  groups_changed(now);
}

void Engine::groups_changed(Instant now) {
  update_protocol(now);
  if (!groups_.is_ready()) {
    if (groups_.is_hopeless(config_.join_patience, now)) {
      fail_all_pending(UnresolvedReason::NotJoined, now);
    }
    return;
  }
  if (!announcing_) {
    announcing_ = true;
    announced_ = 0;
    announce_due_ = now;
    announce_wait_ = config_.announce_interval;
    joined_at_ = now;
    ready_at_ = now;
    asked_ = 0;
    announce(now);
  }
  start_queued(now);
}

void Engine::handle_timeout(Instant now) {
  if (groups_.is_hopeless(config_.join_patience, now)) {
    fail_all_pending(UnresolvedReason::NotJoined, now);
  }
  if (groups_.is_ready() && announcing_) {
    announce(now);
  }
  for (const auto* first = entries_.first_pending(); first != nullptr && first->at <= now;
       first = entries_.first_pending()) {
    const Target target = first->target;
    retry_or_fail(target, *entries_.find(target), now);
  }
  for (const auto* first = entries_.first_expiry(); first != nullptr && first->at <= now;
       first = entries_.first_expiry()) {
    const Target target = first->target;
    expire(target, *entries_.find(target), now);
  }
  queries_.handle_timeout(now);
  update_protocol(now);
  start_queued(now);
}

std::optional<Transmit> Engine::poll_transmit() {
  if (transmits_.empty()) {
    return std::nullopt;
  }
  const Transmit transmit = transmits_.front();
  transmits_.pop_front();
  return transmit;
}

std::optional<Event> Engine::poll_event() {
  if (events_.empty()) {
    return std::nullopt;
  }
  const Event event = events_.front();
  events_.pop_front();
  return event;
}

std::optional<Instant> Engine::poll_timeout() const {
  std::optional<Instant> earliest = groups_.poll_timeout();
  const auto consider = [&earliest](Instant at) {
    if (!earliest.has_value() || at < *earliest) {
      earliest = at;
    }
  };
  if (const auto* first = entries_.first_pending()) {
    consider(first->at);
    if (const auto hopeless = groups_.hopeless_at(config_.join_patience)) {
      consider(*hopeless);
    }
  }
  if (const auto* first = entries_.first_expiry(); first != nullptr && first->at != kNever) {
    consider(first->at);
  }
  if (const auto query = queries_.poll_timeout()) {
    consider(*query);
  }
  if (const auto table = bulk_.poll_timeout()) {
    consider(*table);
  }
  if (protocol_ == RouteProtocol::Undecided) {
    consider(bulk_.patience_end());
  }
  if (announcing_ && announced_ < config_.announcements) {
    consider(announce_due_);
  }
  if (groups_.is_ready() && !queue_.empty() && places_taken_ < config_.window) {
    consider(next_ask());
  }
  return earliest;
}

std::optional<mad::PathRecord> Engine::path(const mad::AcmAddress& address,
                                            std::uint8_t traffic_class) const {
  const Entry* entry = entries_.find({address, traffic_class});
  if (entry == nullptr || entry->state != EntryState::Ready) {
    return std::nullopt;
  }
  return entry->record;
}

std::optional<PathOrigin> Engine::origin(const mad::AcmAddress& address,
                                         std::uint8_t traffic_class) const {
  const Entry* entry = entries_.find({address, traffic_class});
  return entry == nullptr || entry->state != EntryState::Ready ? std::nullopt
                                                               : std::optional(entry->origin);
}

void Engine::announce(Instant now) {
  if (announced_ >= config_.announcements || announce_due_ > now) {
    return;
  }
  ++announced_;
  announce_due_ = now + rng_.jitter(announce_wait_, config_.jitter_percent);
  announce_wait_ *= 3;
  const mad::AcmAddress self = mad::AcmAddress::gid(port_.gid);
  Transmit transmit;
  transmit.to = to_group0();
  transmit.kind = TransmitKind::Announcement;
  transmit.is_retransmit = announced_ > 1;
  mad::serialize(mad::AcmRequest{Tid(rng_.next()), self, self, groups_.joined(0)}, transmit.bytes);
  transmits_.push_back(transmit);
  ++counters_.announcements_sent;
}

void Engine::forget_learned() {
  while (const auto* first = entries_.first_expiry()) {
    erase(Target(first->target));
  }
  entries_.for_each([](const Target&, Entry& entry) { entry.heard.reset(); });
  events_.push_back(Invalidated{});
}

}  // namespace wireup::acm
