// SPDX-License-Identifier: BSD-3-Clause
//
// The asking side: the queue and the window, tries and their waits, the ends of a request.
#include <algorithm>
#include <set>

#include "acm/engine/engine.hpp"
#include "base/check.hpp"

namespace wireup::acm {
namespace {

constexpr std::uint32_t kMulticastQpn = 0xFFFFFF;

}  // namespace

void Engine::enqueue(const Target& target) {
  // Addresses that failed or were learned meanwhile are still in the queue and are skipped when
  // their turn comes. While no turn comes they must not pile up.
  constexpr std::size_t kSlack = 64;
  if (queue_.size() >= 2 * entries_.size() + kSlack) {
    std::set<Target> seen;
    std::erase_if(queue_, [&](const Target& waiting) {
      const Entry* entry = entries_.find(waiting);
      return entry == nullptr || entry->state != EntryState::Queued || !seen.insert(waiting).second;
    });
  }
  queue_.push_back(target);
}

/// When the next address may be asked for the first time.
Instant Engine::next_ask() const noexcept {
  if (asked_ < config_.first_burst) {
    return ready_at_;
  }
  const auto later = static_cast<std::int64_t>(asked_ - config_.first_burst + 1);
  return ready_at_ + std::min(config_.ask_spacing * later, config_.settle_time);
}

void Engine::start_queued(Instant now) {
  if (!groups_.is_ready()) {
    return;
  }
  while (!queue_.empty() && places_taken_ < config_.window && next_ask() <= now) {
    const Target target = queue_.front();
    queue_.pop_front();
    // An entry may have been learned, failed or dropped while its address waited here.
    Entry* entry = entries_.find(target);
    if (entry == nullptr || entry->state != EntryState::Queued) {
      continue;
    }
    ++asked_;
    entry->state = EntryState::Asked;
    entry->asked_since = now;
    entry->attempts = 0;
    entry->wait = config_.first_retry;
    entry->holds_place = true;
    ++places_taken_;
    do {
      entry->tid = Tid(rng_.next());
    } while (!by_tid_.emplace(entry->tid, target).second);
    ask(target, *entry, now);
  }
}

void Engine::retry_or_fail(const Target& target, Entry& entry, Instant now) {
  if (entry.state == EntryState::Routing) {
    fail_route(target, entry, UnresolvedReason::RouteTimeout);
    return;
  }
  const bool is_out_of_tries = config_.max_tries > 0 && entry.attempts >= config_.max_tries;
  if (entry.deadline <= now || is_out_of_tries) {
    fail_entry(
        target,
        groups_.group0() == nullptr ? UnresolvedReason::NotJoined : UnresolvedReason::NoAnswer,
        now);
    return;
  }
  // Queued entries are due at their deadline only, so this one was asked.
  ask(target, entry, now);
}

void Engine::ask(const Target& target, Entry& entry, Instant now) {
  if (entry.attempts == 1 && entry.holds_place) {
    entry.holds_place = false;
    --places_taken_;
  }
  const Duration wait = rng_.jitter(entry.wait, config_.jitter_percent);
  entries_.schedule(target, entry, std::min(now + wait, entry.deadline));
  entry.wait = std::min(entry.wait * static_cast<std::int64_t>(config_.backoff_percent) / 100,
                        config_.max_retry);
  if (groups_.group0() == nullptr || transmits_.size() >= config_.max_transmits) {
    return;
  }
  Transmit transmit;
  transmit.to = to_group0();
  transmit.kind = TransmitKind::Request;
  transmit.is_retransmit = entry.attempts > 0;
  mad::serialize(mad::AcmRequest{entry.tid, target.address, mad::AcmAddress::gid(port_.gid),
                                 groups_.joined(target.traffic_class)},
                 transmit.bytes);
  transmits_.push_back(transmit);
  ++counters_.requests_sent;
  counters_.retransmits += entry.attempts > 0 ? 1 : 0;
  ++entry.attempts;
  if (entry.attempts == config_.rejoin_after_tries && now - joined_at_ >= config_.rejoin_interval) {
    joined_at_ = now;
    rejoin(now);
  }
}

void Engine::fail_entry(const Target& target, UnresolvedReason reason, Instant now) {
  Entry& entry = *entries_.find(target);
  ++counters_.unresolved;
  events_.push_back(PathUnresolved{target.address, reason, entry.attempts, target.traffic_class});
  if (reason == UnresolvedReason::NoAnswer && entry.state == EntryState::Asked &&
      now - entry.asked_since >= config_.negative_after) {
    release(entry);
    entry.state = EntryState::Absent;
    entries_.schedule(target, entry, now + config_.negative_life);
    return;
  }
  erase(target);
}

void Engine::fail_all_pending(UnresolvedReason reason, Instant now) {
  while (const auto* first = entries_.first_pending()) {
    // (A path is never asked of the SA before group 0 is joined, and after that nothing is
    // hopeless.)
    fail_entry(Target(first->target), reason, now);
  }
  queue_.clear();
}

/// Gives back what a pending entry holds: its place in the window and its transaction id. Called
/// before its state changes.
void Engine::release(Entry& entry) {
  if (entry.holds_place) {
    entry.holds_place = false;
    --places_taken_;
  }
  if (entry.state == EntryState::Asked) {
    by_tid_.erase(entry.tid);
  }
}

void Engine::erase(const Target& target) {
  Entry& entry = *entries_.find(target);
  const std::optional<Peer> routed = entry.state == EntryState::Routing ? entry.peer : std::nullopt;
  release(entry);
  entries_.erase(target);
  if (routed.has_value()) {
    cancel_unwanted({routed->gid, target.traffic_class});
  }
}

/// False when every entry is being asked for.
bool Engine::make_room() {
  if (entries_.size() < config_.max_entries) {
    return true;
  }
  const auto* first = entries_.first_expiry();
  if (first == nullptr) {
    return false;
  }
  ++counters_.evicted;
  erase(Target(first->target));
  return true;
}

Destination Engine::to_group0() const noexcept {
  const mad::McMemberRecord* group = groups_.group0();
  WIREUP_CHECK(group != nullptr);
  Destination to = along(*group);
  to.dlid = group->mlid;
  to.qpn = Qpn(kMulticastQpn);
  to.dgid = group->mgid;
  return to;
}

/// A destination that is still to be named, with what the group says of the way there.
Destination Engine::along(const mad::McMemberRecord& group) const noexcept {
  Destination to;
  to.sl = group.sl;
  to.static_rate = group.rate == port_.rate ? std::uint8_t{0} : group.rate;
  to.flow_label = group.flow_label;
  to.hop_limit = group.hop_limit;
  to.traffic_class = group.traffic_class;
  return to;
}

}  // namespace wireup::acm
