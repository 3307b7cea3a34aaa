// SPDX-License-Identifier: BSD-3-Clause
//
// What the SA tells without having been asked for one path: all paths at once, ports that leave and
// come; and what follows for the paths that are made of groups.
#include <map>
#include <utility>
#include <vector>

#include "acm/engine/engine.hpp"
#include "base/check.hpp"

namespace wireup::acm {
namespace {

/// Ports that are remembered while they are away. Of one that is forgotten here the path is asked
/// for when somebody wants it.
constexpr std::size_t kMaxGone = 4096;
/// More than this many that come back at about the same time cost one request for all.
constexpr std::size_t kMaxReturning = 8;

/// Of several paths to a port (LMC): from our base LID, to its lowest one.
bool is_better(const mad::PathRecord& a, const mad::PathRecord& b, Lid base) noexcept {
  return std::pair(a.slid != base, a.dlid) < std::pair(b.slid != base, b.dlid);
}

}  // namespace

std::optional<TableQuery> Engine::poll_table_query(Instant now) {
  auto query = bulk_.poll(config_, port_, now);
  const bool is_paths = query.has_value() && query->kind == TableQuery::Kind::Paths;
  counters_.path_tables_sent += is_paths ? 1 : 0;
  return query;
}

void Engine::handle_path_table(std::uint32_t id, std::span<const mad::PathRecord> records,
                               Instant now) {
  if (!bulk_.handle_table(id, records, port_)) {
    return;
  }
  std::map<Gid, const mad::PathRecord*> chosen;
  for (const mad::PathRecord& record : records) {
    if (!is_usable_path(record, port_)) {
      continue;
    }
    const auto [at, is_new] = chosen.try_emplace(record.dgid, &record);
    if (!is_new && is_better(record, *at->second, port_.lid)) {
      at->second = &record;
    }
  }
  // A wrong path is void before the right one is told; a right one need not be told twice.
  if (bulk_.protocol(config_, groups_.best(0), now) == RouteProtocol::Sa) {
    update_protocol(now);
  }
  for (const auto& [gid, record] : chosen) {
    learn_route(*record, now);
    ++counters_.paths_from_tables;
  }
  update_protocol(now);
  start_queued(now);
}

void Engine::handle_switches(std::uint32_t id, std::span<const Guid> switches, Instant now) {
  if (bulk_.handle_switches(id, switches)) {
    update_protocol(now);
    start_queued(now);
  }
}

void Engine::handle_table_failure(std::uint32_t id, QueryFailure failure, Instant now) {
  if (bulk_.handle_failure(id, failure, config_, rng_, now)) {
    update_protocol(now);
    start_queued(now);
  }
}

void Engine::update_protocol(Instant now) {
  const RouteProtocol next = bulk_.protocol(config_, groups_.best(0), now);
  if (next == protocol_ || next == RouteProtocol::Undecided) {
    // What was decided once holds until the opposite is.
    return;
  }
  protocol_ = next;
  if (next == RouteProtocol::Sa) {
    use_sa(now);
  } else {
    use_groups(now);
  }
}

/// Paths made of groups are void; their ports stay known.
void Engine::use_sa(Instant now) {
  bool has_void = false;
  std::vector<Target> waiting;
  entries_.for_each([&](const Target& target, Entry& entry) {
    if (entry.state == EntryState::Ready && entry.origin == PathOrigin::AcmMulticast) {
      has_void = true;
      make_known(target, entry);
    } else if (entry.state == EntryState::Routing) {
      waiting.push_back(target);
    }
  });
  if (has_void) {
    events_.push_back(Invalidated{});
    // What else was published went with them.
    entries_.for_each([&](const Target& target, Entry& entry) {
      if (entry.state == EntryState::Ready) {
        events_.push_back(
            PathLearned{target.address, entry.record, false, target.traffic_class, entry.origin});
      }
    });
  }
  for (const Target& target : waiting) {
    want_route(target, *entries_.find(target), now);
  }
}

/// Paths can be made of groups: all ports that were heard have one. (Of one that was heard in a
/// group that is another now the path is asked of the SA.)
void Engine::use_groups(Instant now) {
  std::vector<Target> found;
  entries_.for_each([&](const Target& target, Entry& entry) {
    if (entry.state == EntryState::Routing ||
        (entry.state == EntryState::Known && entry.heard.has_value())) {
      found.push_back(target);
    }
  });
  for (const Target& target : found) {
    Entry& entry = *entries_.find(target);
    const bool wanted = entry.state == EntryState::Routing;
    if (!entry.heard.has_value()) {
      want_route(target, entry, now);
      continue;
    }
    const PathQueries::Key key{entry.peer->gid, target.traffic_class};
    entry.route_expiry = kNever;
    make_ready(target, entry, *entry.heard, PathOrigin::AcmMulticast, wanted);
    cancel_unwanted(key);
  }
}

/// A path of the SA to a port of which nothing need be known: it is there for the port's GID, and
/// for every address that is known to be the port's.
void Engine::learn_route(const mad::PathRecord& record, Instant now) {
  const Target gid{mad::AcmAddress::gid(record.dgid), 0};
  if (entries_.find(gid) == nullptr) {
    if (entries_.size() >= config_.max_entries) {
      return;
    }
    entries_.insert(gid).state = EntryState::Known;
  }
  take_route(gid, record, now);
  const Target lid{mad::AcmAddress::lid(record.dlid), 0};
  if (entries_.find(lid) != nullptr) {
    take_route(lid, record, now);
  }
  for (const Target& target : entries_.targets_of(record.dgid)) {
    if (target.traffic_class != 0 || target == gid || target == lid) {
      continue;
    }
    const Entry& entry = *entries_.find(target);
    if (!target.address.as_lid().has_value()) {
      take_route(target, record, now);
    } else if (entry.state == EntryState::Ready && entry.peer->lid != record.dlid) {
      // A LID that the port had before.
      events_.push_back(PathForgotten{target.address, target.traffic_class});
      erase(target);
    }
  }
  cancel_unwanted({record.dgid, 0});
}

void Engine::take_route(const Target& target, const mad::PathRecord& record, Instant now) {
  Entry& entry = *entries_.find(target);
  const bool wanted = entry.is_pending();
  const bool is_known = entry.peer.has_value() && entry.peer->gid == record.dgid;
  const bool is_there = is_known && entry.peer->lid == record.dlid;
  const Qpn qpn = is_known ? entry.peer->qpn : Qpn();
  release(entry);
  if (entry.state == EntryState::Routing && !is_known) {
    const PathQueries::Key before{entry.peer->gid, target.traffic_class};
    make_known(target, entry);
    cancel_unwanted(before);
  }
  if (!is_there) {
    entry.heard.reset();
  }
  entries_.set_peer(target, entry, Peer{record.dgid, record.dlid, qpn});
  entry.address_expiry = after(now, config_.address_life);
  entry.route_expiry = after(now, config_.route_life);
  // (It was waited for, and becomes Ready: news, whatever the state says now.)
  make_ready(target, entry, record, PathOrigin::SaQuery, wanted);
}

/// Somebody wants the path of a port whose path is known under its GID, or could be made of a
/// group.
bool Engine::take_known_route(const Target& target, Entry& entry) {
  const Entry* known = entries_.find({mad::AcmAddress::gid(entry.peer->gid), target.traffic_class});
  if (known != nullptr && known != &entry && known->state == EntryState::Ready &&
      known->origin == PathOrigin::SaQuery && known->peer->lid == entry.peer->lid) {
    entry.route_expiry = known->route_expiry;
    make_ready(target, entry, known->record, PathOrigin::SaQuery, true);
    return true;
  }
  if (protocol_ == RouteProtocol::Acm && config_.bulk_paths != BulkPaths::Never &&
      entry.heard.has_value()) {
    entry.route_expiry = kNever;
    make_ready(target, entry, *entry.heard, PathOrigin::AcmMulticast, true);
    return true;
  }
  return false;
}

/// With the SA's table in use a GID needs no multicast: the SA knows every port by it.
bool Engine::asks_sa_by_gid(const Target& target) const noexcept {
  return protocol_ == RouteProtocol::Sa && bulk_.has_verdict() &&
         target.address.as_gid().has_value();
}

void Engine::ask_sa_by_gid(const Target& target, Instant deadline, Instant now) {
  Entry& entry = entries_.insert(target);
  entry.deadline = deadline;
  entry.address_expiry = after(now, config_.address_life);
  entries_.set_peer(target, entry, Peer{*target.address.as_gid(), Lid(), Qpn()});
  want_route(target, entry, now);
}

/// False when nothing was known of it.
bool Engine::forget_port(const Gid& gid) {
  bool was_known = false;
  for (const Target& target : entries_.targets_of(gid)) {
    const Entry& entry = *entries_.find(target);
    if (!entry.peer.has_value() || entry.is_pending()) {
      continue;
    }
    was_known = true;
    if (entry.state == EntryState::Ready) {
      events_.push_back(PathForgotten{target.address, target.traffic_class});
    }
    erase(target);
  }
  counters_.ports_forgotten += was_known ? 1 : 0;
  return was_known;
}

void Engine::port_left(const Gid& gid) {
  ++counters_.ports_left;
  if (forget_port(gid) && gone_.size() < kMaxGone) {
    gone_.insert(gid);
  }
  if (returning_.erase(gid) != 0) {
    cancel_unwanted({gid, 0});
  }
}

void Engine::port_came(const Gid& gid, Instant now) {
  ++counters_.ports_came;
  const bool was_known = forget_port(gid);
  const bool was_gone = gone_.erase(gid) != 0;
  if ((!was_known && !was_gone) || gid == port_.gid || returning_.contains(gid)) {
    return;
  }
  if (returning_.size() >= kMaxReturning && config_.bulk_paths != BulkPaths::Never) {
    bulk_.restart(config_, rng_, now);
    return;
  }
  if (returning_.size() < kMaxReturning && queries_.want({gid, 0}, config_, now)) {
    returning_.insert(gid);
  }
}

}  // namespace wireup::acm
