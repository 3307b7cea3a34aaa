// SPDX-License-Identifier: BSD-3-Clause
//
// From a known port to its path: at once in acm mode, by a query to the SA in sa mode.
#include <algorithm>

#include "acm/engine/engine.hpp"
#include "base/check.hpp"

namespace wireup::acm {
namespace {

PathQueries::Key key_of(const Target& target, const Entry& entry) noexcept {
  return {entry.peer->gid, target.traffic_class};
}

}  // namespace

/// The entry waits for a path of the SA from now on; its deadline is set.
void Engine::want_route(const Target& target, Entry& entry, Instant now) {
  WIREUP_CHECK(entry.peer.has_value());
  entry.state = EntryState::Routing;
  entries_.schedule(target, entry, entry.deadline);
  if (take_known_route(target, entry) || protocol_ == RouteProtocol::Undecided) {
    return;
  }
  if (!queries_.want(key_of(target, entry), config_, now)) {
    fail_route(target, entry, UnresolvedReason::NoRoute);
  }
}

void Engine::make_ready(const Target& target, Entry& entry, const mad::PathRecord& record,
                        PathOrigin origin, bool wanted) {
  const bool is_news = entry.state != EntryState::Ready || entry.record != record;
  entry.state = EntryState::Ready;
  entry.attempts = 0;
  entry.record = record;
  entry.origin = origin;
  entries_.schedule(target, entry, std::min(entry.address_expiry, entry.route_expiry));
  if (is_news) {
    counters_.snooped += wanted ? 0 : 1;
    events_.push_back(PathLearned{target.address, record, wanted, target.traffic_class, origin});
  }
}

void Engine::make_known(const Target& target, Entry& entry) {
  entry.state = EntryState::Known;
  entries_.schedule(target, entry, entry.address_expiry);
}

/// The path failed, the port stays known.
void Engine::fail_route(const Target& target, Entry& entry, UnresolvedReason reason) {
  ++counters_.unresolved;
  events_.push_back(PathUnresolved{target.address, reason, 0, target.traffic_class});
  make_known(target, entry);
  cancel_unwanted(key_of(target, entry));
}

/// Ends the query for a path that no entry waits for.
void Engine::cancel_unwanted(const PathQueries::Key& key) {
  const auto targets = entries_.targets_of(key.dgid);
  const bool is_wanted = std::any_of(targets.begin(), targets.end(), [&](const Target& target) {
    return target.traffic_class == key.traffic_class &&
           entries_.find(target)->state == EntryState::Routing;
  });
  if (!is_wanted && !returning_.contains(key.dgid)) {
    queries_.cancel(key);
  }
}

/// A datagram showed the port behind the address (sa mode). Another service on the same port is no
/// reason to ask the SA again; another LID is.
void Engine::learn_address(const Target& target, Entry& entry, const Peer& peer, Instant now) {
  const bool is_same =
      entry.peer.has_value() && entry.peer->gid == peer.gid && entry.peer->lid == peer.lid;
  switch (entry.state) {
    case EntryState::Queued:
    case EntryState::Asked:
      release(entry);
      entries_.set_peer(target, entry, peer);
      want_route(target, entry, now);
      return;
    case EntryState::Routing:
      if (entry.peer->gid != peer.gid) {
        const PathQueries::Key before = key_of(target, entry);
        entries_.set_peer(target, entry, peer);
        cancel_unwanted(before);
        want_route(target, entry, now);
        return;
      }
      entries_.set_peer(target, entry, peer);
      return;
    case EntryState::Ready:
      entries_.set_peer(target, entry, peer);
      if (is_same) {
        entries_.schedule(target, entry, std::min(entry.address_expiry, entry.route_expiry));
        return;
      }
      events_.push_back(PathForgotten{target.address, target.traffic_class});
      make_known(target, entry);
      return;
    case EntryState::Known:
    case EntryState::Absent:
      entries_.set_peer(target, entry, peer);
      make_known(target, entry);
      return;
  }
}

/// An entry that nobody waits for is due.
void Engine::expire(const Target& target, Entry& entry, Instant now) {
  if (entry.state == EntryState::Ready) {
    events_.push_back(PathForgotten{target.address, target.traffic_class});
    if (entry.address_expiry > now) {
      ++counters_.routes_expired;
      make_known(target, entry);
      return;
    }
    ++counters_.expired;
  }
  erase(target);
}

void Engine::routes_changed(Instant now) {
  bulk_.restart(config_, rng_, now);
  bool has_any = false;
  entries_.for_each([&](const Target& target, Entry& entry) {
    if (entry.state == EntryState::Ready && entry.origin == PathOrigin::SaQuery) {
      has_any = true;
      make_known(target, entry);
    }
  });
  if (has_any) {
    events_.push_back(Invalidated{});
  }
}

std::optional<PathQuery> Engine::poll_path_query(Instant now) {
  auto query = queries_.poll(port_, now);
  counters_.path_queries_sent += query.has_value() ? 1 : 0;
  return query;
}

void Engine::handle_path_reply(std::uint32_t id, const mad::PathRecord& record, Instant now) {
  const auto key = queries_.key_of(id);
  if (!key.has_value()) {
    return;
  }
  if (record.dgid != key->dgid || !is_usable_path(record, port_)) {
    ++counters_.path_replies_bad;
    handle_path_failure(id, QueryFailure::Refused, now);
    return;
  }
  queries_.finish(id, config_);
  if (returning_.erase(key->dgid) != 0 && key->traffic_class == 0) {
    learn_route(record, now);
    return;
  }
  for (const Target& target : entries_.targets_of(key->dgid)) {
    Entry& entry = *entries_.find(target);
    const bool wanted = entry.state == EntryState::Routing;
    if (target.traffic_class == key->traffic_class &&
        (wanted || entry.state == EntryState::Known)) {
      if (entry.peer->lid.is_zero()) {
        // Nothing was heard of it: the SA alone knows its LID.
        entries_.set_peer(target, entry, Peer{record.dgid, record.dlid, Qpn()});
      }
      entry.route_expiry = after(now, config_.route_life);
      make_ready(target, entry, record, PathOrigin::SaQuery, wanted);
    }
  }
}

void Engine::handle_path_failure(std::uint32_t id, QueryFailure failure, Instant now) {
  const auto failed = queries_.handle_failure(id, failure, config_, rng_, now);
  if (!failed.has_value() || !failed->is_final) {
    return;
  }
  returning_.erase(failed->key.dgid);
  for (const Target& target : entries_.targets_of(failed->key.dgid)) {
    Entry& entry = *entries_.find(target);
    if (entry.state == EntryState::Routing && target.traffic_class == failed->key.traffic_class) {
      fail_route(target, entry, UnresolvedReason::NoRoute);
    }
  }
}

}  // namespace wireup::acm
