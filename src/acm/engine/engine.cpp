// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/engine.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace wireup::acm {
namespace {

constexpr std::uint32_t kMulticastQpn = 0xFFFFFF;
}  // namespace

Engine::Engine(const Config& config, const PortIdentity& port, Rng rng, Instant now,
               std::vector<mad::AcmAddress> locals)
    : config_(config),
      port_(port),
      rng_(rng),
      locals_(std::move(locals)),
      groups_(config, port, now) {
  WIREUP_CHECK(config_.first_retry > Duration::zero() && config_.max_retry > Duration::zero());
  WIREUP_CHECK(config_.jitter_percent < 100 && config_.backoff_percent >= 100);
  WIREUP_CHECK(config_.window > 0 && config_.first_burst > 0 && config_.max_entries > 0);
}

Result<> Engine::resolve(const mad::AcmAddress& address, Instant deadline, Instant now) {
  if (is_local(address)) {
    events_.push_back(PathLearned{address, local_path(port_), true});
    return {};
  }
  if (const auto at = entries_.find(address); at != entries_.end()) {
    Entry& entry = at->second;
    switch (entry.state) {
      case State::Ready:
        if (entry.due > now) {
          events_.push_back(PathLearned{address, entry.record, true});
          return {};
        }
        break;
      case State::Absent:
        if (entry.due > now) {
          events_.push_back(PathUnresolved{address, UnresolvedReason::Absent, 0});
          return {};
        }
        break;
      case State::Queued:
      case State::Asked:
        if (deadline > entry.deadline) {
          entry.deadline = deadline;
          if (entry.state == State::Queued) {
            schedule(address, entry, deadline);
          }
        }
        return {};
    }
    erase(at);
  }
  if (groups_.is_hopeless(config_.join_patience, now)) {
    ++counters_.unresolved;
    events_.push_back(PathUnresolved{address, UnresolvedReason::NotJoined, 0});
    return {};
  }
  if (!make_room()) {
    return fail(Error::make(Errc::Busy, "%zu addresses are being resolved, the limit of a resolver",
                            by_retry_.size()));
  }
  Entry& entry = entries_[address];
  entry.state = State::Queued;
  entry.deadline = deadline;
  schedule(address, entry, deadline);
  enqueue(address);
  start_queued(now);
  return {};
}

void Engine::path_failed(const mad::AcmAddress& address) {
  const auto at = entries_.find(address);
  if (at != entries_.end() && at->second.state == State::Ready) {
    erase(at);
  }
}

void Engine::port_changed(const PortIdentity& port, Instant now) {
  port_ = port;
  groups_ = Groups(config_, port_, now);
  announcing_ = false;
  transmits_.clear();
  forget_learned();
  // What was asked is asked again from the start when the new groups are joined.
  for (auto& [address, entry] : entries_) {
    if (entry.state == State::Asked) {
      release(entry);
      unschedule(address, entry);
      entry.state = State::Queued;
      entry.attempts = 0;
      schedule(address, entry, entry.deadline);
      enqueue(address);
    }
  }
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
    if (outcome->late) {
      // Paths were made from a lesser group until now.
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
  while (!by_retry_.empty() && by_retry_.begin()->first <= now) {
    const mad::AcmAddress address = by_retry_.begin()->second;
    const auto at = entries_.find(address);
    WIREUP_CHECK(at != entries_.end());
    Entry& entry = at->second;
    if (entry.deadline <= now) {
      fail_entry(
          at,
          groups_.group0() == nullptr ? UnresolvedReason::NotJoined : UnresolvedReason::NoAnswer,
          now);
    } else {
      // Queued entries are due at their deadline only, so this one was asked.
      ask(address, entry, now);
    }
  }
  while (!by_expiry_.empty() && by_expiry_.begin()->first <= now) {
    const auto at = entries_.find(by_expiry_.begin()->second);
    WIREUP_CHECK(at != entries_.end());
    if (at->second.state == State::Ready) {
      ++counters_.expired;
    }
    erase(at);
  }
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
  if (!by_retry_.empty()) {
    consider(by_retry_.begin()->first);
    if (const auto hopeless = groups_.hopeless_at(config_.join_patience)) {
      consider(*hopeless);
    }
  }
  if (!by_expiry_.empty()) {
    consider(by_expiry_.begin()->first);
  }
  if (announcing_ && announced_ < config_.announcements) {
    consider(announce_due_);
  }
  if (groups_.is_ready() && !queue_.empty() && places_taken_ < config_.window) {
    consider(next_ask());
  }
  return earliest;
}

std::optional<mad::PathRecord> Engine::path(const mad::AcmAddress& address) const {
  const auto at = entries_.find(address);
  if (at == entries_.end() || at->second.state != State::Ready) {
    return std::nullopt;
  }
  return at->second.record;
}

void Engine::enqueue(const mad::AcmAddress& address) {
  // Addresses that failed or were learned meanwhile are still in the queue and are skipped when
  // their turn comes. While no turn comes they must not pile up.
  constexpr std::size_t kSlack = 64;
  if (queue_.size() >= 2 * entries_.size() + kSlack) {
    std::set<mad::AcmAddress> seen;
    std::erase_if(queue_, [&](const mad::AcmAddress& waiting) {
      const auto at = entries_.find(waiting);
      return at == entries_.end() || at->second.state != State::Queued ||
             !seen.insert(waiting).second;
    });
  }
  queue_.push_back(address);
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
    const mad::AcmAddress address = queue_.front();
    queue_.pop_front();
    // An entry may have been learned, failed or dropped while its address waited here.
    const auto at = entries_.find(address);
    if (at == entries_.end() || at->second.state != State::Queued) {
      continue;
    }
    Entry& entry = at->second;
    unschedule(address, entry);
    ++asked_;
    entry.state = State::Asked;
    entry.asked_since = now;
    entry.attempts = 0;
    entry.wait = config_.first_retry;
    entry.holds_place = true;
    ++places_taken_;
    do {
      entry.tid = Tid(rng_.next());
    } while (!by_tid_.emplace(entry.tid, address).second);
    ask(address, entry, now);
  }
}

void Engine::ask(const mad::AcmAddress& address, Entry& entry, Instant now) {
  if (entry.attempts == 1 && entry.holds_place) {
    entry.holds_place = false;
    --places_taken_;
  }
  const Duration wait = rng_.jitter(entry.wait, config_.jitter_percent);
  schedule(address, entry, std::min(now + wait, entry.deadline));
  entry.wait = std::min(entry.wait * static_cast<std::int64_t>(config_.backoff_percent) / 100,
                        config_.max_retry);
  if (groups_.group0() == nullptr || transmits_.size() >= config_.max_transmits) {
    return;
  }
  Transmit transmit;
  transmit.to = to_group0();
  transmit.kind = TransmitKind::Request;
  transmit.is_retransmit = entry.attempts > 0;
  mad::serialize(
      mad::AcmRequest{entry.tid, address, mad::AcmAddress::gid(port_.gid), groups_.joined()},
      transmit.bytes);
  transmits_.push_back(transmit);
  ++counters_.requests_sent;
  counters_.retransmits += entry.attempts > 0 ? 1 : 0;
  ++entry.attempts;
  if (entry.attempts == config_.rejoin_after_tries && now - joined_at_ >= config_.rejoin_interval) {
    rejoin(now);
  }
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
  mad::serialize(mad::AcmRequest{Tid(rng_.next()), self, self, groups_.joined()}, transmit.bytes);
  transmits_.push_back(transmit);
  ++counters_.announcements_sent;
}

void Engine::fail_entry(Entries::iterator at, UnresolvedReason reason, Instant now) {
  Entry& entry = at->second;
  ++counters_.unresolved;
  events_.push_back(PathUnresolved{at->first, reason, entry.attempts});
  if (reason == UnresolvedReason::NoAnswer && entry.state == State::Asked &&
      now - entry.asked_since >= config_.negative_after) {
    release(entry);
    unschedule(at->first, entry);
    entry.state = State::Absent;
    schedule(at->first, entry, now + config_.negative_life);
    return;
  }
  erase(at);
}

void Engine::fail_all_pending(UnresolvedReason reason, Instant now) {
  while (!by_retry_.empty()) {
    fail_entry(entries_.find(by_retry_.begin()->second), reason, now);
  }
  queue_.clear();
}

void Engine::forget_learned() {
  while (!by_expiry_.empty()) {
    erase(entries_.find(by_expiry_.begin()->second));
  }
  events_.push_back(Invalidated{});
}

void Engine::schedule(const mad::AcmAddress& address, Entry& entry, Instant due) {
  unschedule(address, entry);
  entry.due = due;
  const bool is_pending = entry.state == State::Queued || entry.state == State::Asked;
  (is_pending ? by_retry_ : by_expiry_).emplace(due, address);
}

void Engine::unschedule(const mad::AcmAddress& address, const Entry& entry) {
  by_retry_.erase({entry.due, address});
  by_expiry_.erase({entry.due, address});
}

/// Gives back what a pending entry holds: its place in the window and its transaction id.
void Engine::release(Entry& entry) {
  if (entry.holds_place) {
    entry.holds_place = false;
    --places_taken_;
  }
  if (entry.state == State::Asked) {
    by_tid_.erase(entry.tid);
  }
}

void Engine::erase(Entries::iterator at) {
  release(at->second);
  unschedule(at->first, at->second);
  entries_.erase(at);
}

/// False when every entry is being asked for.
bool Engine::make_room() {
  if (entries_.size() < config_.max_entries) {
    return true;
  }
  if (by_expiry_.empty()) {
    return false;
  }
  ++counters_.evicted;
  erase(entries_.find(by_expiry_.begin()->second));
  return true;
}

Destination Engine::to_group0() const noexcept {
  const mad::McMemberRecord* group = groups_.group0();
  WIREUP_CHECK(group != nullptr);
  Destination to;
  to.dlid = group->mlid;
  to.qpn = Qpn(kMulticastQpn);
  to.sl = group->sl;
  to.static_rate = group->rate == port_.rate ? std::uint8_t{0} : group->rate;
  to.dgid = group->mgid;
  to.flow_label = group->flow_label;
  to.hop_limit = group->hop_limit;
  to.traffic_class = group->traffic_class;
  return to;
}

}  // namespace wireup::acm
