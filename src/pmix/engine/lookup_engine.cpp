// SPDX-License-Identifier: BSD-3-Clause
#include "pmix/engine/lookup_engine.hpp"

#include <algorithm>

namespace wireup::pmix {
namespace {

constexpr unsigned kJitterPercent = 25;

Error server_gone_error(const PeerRef& peer) {
  return Error::make(Errc::NoPmix,
                     "card of rank %u of job %.80s: the PMIx server of this node is gone, and the "
                     "card was not fetched before",
                     peer.rank, peer.nspace.c_str());
}

}  // namespace

Instant LookupEngine::wake_time(const Lookup& lookup) const noexcept {
  return lookup.phase == Phase::Waiting ? std::min(lookup.retry_at, lookup.deadline)
                                        : lookup.deadline;
}

void LookupEngine::set_timer(const PeerRef& peer, Lookup& lookup, Phase phase, Instant retry_at) {
  timers_.erase({wake_time(lookup), peer});
  lookup.phase = phase;
  lookup.retry_at = retry_at;
  timers_.emplace(wake_time(lookup), peer);
}

void LookupEngine::queue(const PeerRef& peer, Lookup& lookup, bool local_only) {
  lookup.local_only = local_only;
  set_timer(peer, lookup, Phase::Queued, Instant{});
  ready_.push_back(peer);
}

void LookupEngine::wait(const PeerRef& peer, Lookup& lookup, Instant now) {
  lookup.back_off = lookup.back_off == Duration{}
                        ? config_.retry_first
                        : std::min(lookup.back_off * 2, config_.retry_max);
  set_timer(peer, lookup, Phase::Waiting, now + rng_.jitter(lookup.back_off, kJitterPercent));
}

void LookupEngine::forget_call(Lookup& lookup) {
  if (lookup.phase != Phase::Asking) {
    return;
  }
  if (const auto call = calls_.find(lookup.call_id);
      call != calls_.end() && std::exchange(call->second.counted, false)) {
    --in_flight_;
  }
}

void LookupEngine::finish(Lookups::iterator at, Result<std::vector<std::uint8_t>> card) {
  forget_call(at->second);
  timers_.erase({wake_time(at->second), at->first});
  results_.push_back({at->first, std::move(card)});
  lookups_.erase(at);
}

bool LookupEngine::remote_question_is_open(const PeerRef& peer) const {
  return open_remote_.contains(peer);
}

void LookupEngine::request(const PeerRef& peer, Instant deadline, Instant now) {
  if (const auto cached = cache_.find(peer); cached != cache_.end()) {
    results_.push_back({peer, cached->second});
    return;
  }
  if (server_gone_) {
    results_.push_back({peer, fail(server_gone_error(peer))});
    return;
  }
  if (const auto known = lookups_.find(peer); known != lookups_.end()) {
    Lookup& lookup = known->second;
    timers_.erase({wake_time(lookup), peer});
    lookup.deadline = std::max(lookup.deadline, deadline);
    timers_.emplace(wake_time(lookup), peer);
    return;
  }
  Lookup& lookup = lookups_[peer];
  lookup.deadline = std::max(deadline, now);
  queue(peer, lookup, true);
}

void LookupEngine::handle_collected() {
  for (auto& [peer, lookup] : lookups_) {
    if (lookup.phase == Phase::Queued) {
      lookup.local_only = true;
      continue;
    }
    if (lookup.phase == Phase::Asking && lookup.local_only) {
      // Its answer may be from before; it comes at once and leads to the remote question, which
      // finds the card as well.
      continue;
    }
    forget_call(lookup);
    lookup.back_off = Duration{};
    queue(peer, lookup, true);
  }
}

void LookupEngine::handle_reply(std::uint64_t id, GetStatus status,
                                std::span<const std::uint8_t> card, Instant now) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) {
    return;
  }
  const Call call = std::move(found->second);
  calls_.erase(found);
  if (call.counted) {
    --in_flight_;
  }
  if (!call.local_only) {
    if (const auto open = open_remote_.find(call.peer);
        open != open_remote_.end() && --open->second == 0) {
      open_remote_.erase(open);
    }
  }
  const auto at = lookups_.find(call.peer);
  if (status == GetStatus::Found) {
    std::vector<std::uint8_t> bytes(card.begin(), card.end());
    if (at != lookups_.end()) {
      finish(at, bytes);
    }
    cache_.insert_or_assign(call.peer, std::move(bytes));
    return;
  }
  if (at == lookups_.end() || at->second.phase != Phase::Asking || at->second.call_id != id) {
    return;  // a late answer to a question nobody has any more
  }
  if (status == GetStatus::Malformed) {
    finish(at, fail(Error::make(Errc::Malformed,
                                "card of rank %u of job %.80s: the value under wireup's key is not "
                                "a byte object of 1 to 4096 bytes",
                                call.peer.rank, call.peer.nspace.c_str())));
    return;
  }
  Lookup& lookup = at->second;
  lookup.answered |= status == GetStatus::NotFound;
  if (call.local_only && !remote_question_is_open(call.peer)) {
    queue(at->first, lookup, false);
    return;
  }
  if (!call.local_only) {
    ++lookup.rounds;
  }
  wait(at->first, lookup, now);
}

void LookupEngine::handle_server_gone() {
  server_gone_ = true;
  ready_.clear();
  while (!lookups_.empty()) {
    const PeerRef peer = lookups_.begin()->first;
    finish(lookups_.begin(), fail(server_gone_error(peer)));
  }
}

void LookupEngine::expire(Lookups::iterator at) {
  const PeerRef& peer = at->first;
  if (at->second.answered) {
    finish(at, fail(Error::make(Errc::CardMissing,
                                "rank %u of job %.80s had not published its card by the deadline "
                                "(%u answers from its node): it has not opened its wireup context, "
                                "or has ended",
                                peer.rank, peer.nspace.c_str(), at->second.rounds)));
    return;
  }
  finish(at, fail(Error::make(Errc::Timeout,
                              "card of rank %u of job %.80s: the PMIx library gave no answer until "
                              "the deadline; look at the launcher and its daemon on this node",
                              peer.rank, peer.nspace.c_str())));
}

void LookupEngine::handle_timeout(Instant now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const auto at = lookups_.find(timers_.begin()->second);
    if (at->second.deadline <= now) {
      expire(at);
    } else {
      queue(at->first, at->second, true);
    }
  }
}

void LookupEngine::cancel_all() {
  for (auto& [peer, lookup] : lookups_) {
    forget_call(lookup);
  }
  lookups_.clear();
  timers_.clear();
  ready_.clear();
  results_.clear();
}

std::optional<GetCall> LookupEngine::poll_call(Instant now) {
  while (!ready_.empty() && in_flight_ < config_.window) {
    const PeerRef peer = std::move(ready_.front());
    ready_.pop_front();
    const auto at = lookups_.find(peer);
    if (at == lookups_.end() || at->second.phase != Phase::Queued) {
      continue;  // ended, or asked already, while it stood in the queue
    }
    Lookup& lookup = at->second;
    lookup.call_id = next_id_++;
    set_timer(peer, lookup, Phase::Asking, Instant{});
    calls_.emplace(lookup.call_id, Call{peer, lookup.local_only, true});
    ++in_flight_;
    if (!lookup.local_only) {
      ++open_remote_[peer];
    }
    return GetCall{lookup.call_id, peer, lookup.local_only,
                   std::max(lookup.deadline - now, Duration{})};
  }
  return std::nullopt;
}

std::optional<CardResult> LookupEngine::poll_result() {
  if (results_.empty()) {
    return std::nullopt;
  }
  CardResult result = std::move(results_.front());
  results_.pop_front();
  return result;
}

std::optional<Instant> LookupEngine::poll_timeout() const noexcept {
  return timers_.empty() ? std::nullopt : std::optional(timers_.begin()->first);
}

}  // namespace wireup::pmix
