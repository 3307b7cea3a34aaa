// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/path_queries.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {
namespace {

// Both GIDs and the P_Key, so that the SA has no choice of ends; "reversible", since the CM answers
// on the same path, and a number of paths, since a Get has room for one. No SL: it is the SA's to
// give, and one that was asked for would be a demand.
constexpr std::uint64_t kQueryMask = mad::path_mask::kDgid | mad::path_mask::kSgid |
                                     mad::path_mask::kReversible | mad::path_mask::kNumbPath |
                                     mad::path_mask::kPKey;

/// The first pause after "busy": that comes at once, so that a wait of the one query alone would
/// burn all others in no time.
constexpr Duration kFirstPause = std::chrono::milliseconds(20);

}  // namespace

PathQueries::PathQueries(const Config& config) noexcept : window_(config.sa_window) {}

bool PathQueries::want(const Key& key, const Config& config, Instant now) {
  const auto at = queries_.find(key);
  if (at != queries_.end()) {
    Query& query = at->second;
    if (query.state != State::Refused) {
      query.is_wanted = true;
      return true;
    }
    if (query.due > now) {
      return false;
    }
    refused_.erase({query.due, key});
    queries_.erase(at);
  }
  Query query;
  query.due = now;
  query.wait = config.sa_first_retry;
  queries_.emplace(key, query);
  waiting_.insert({now, key});
  return true;
}

void PathQueries::cancel(const Key& key) {
  const auto at = queries_.find(key);
  if (at == queries_.end()) {
    return;
  }
  if (at->second.state == State::Waiting) {
    waiting_.erase({at->second.due, key});
    queries_.erase(at);
  } else {
    at->second.is_wanted = false;
  }
}

void PathQueries::clear() {
  queries_.clear();
  waiting_.clear();
  refused_.clear();
  in_flight_.clear();
  pause_ = Duration::zero();
  pause_end_ = Instant();
}

std::optional<PathQuery> PathQueries::poll(const PortIdentity& port, Instant now) {
  if (waiting_.empty() || waiting_.begin()->at > now || in_flight_.size() >= window_ ||
      pause_end_ > now) {
    return std::nullopt;
  }
  const Key key = waiting_.begin()->key;
  waiting_.erase(waiting_.begin());
  queries_.at(key).state = State::InFlight;
  PathQuery query;
  query.id = next_id_++;
  query.component_mask = kQueryMask;
  query.record.dgid = key.dgid;
  query.record.sgid = port.gid;
  query.record.reversible = true;
  query.record.numb_path = 1;
  query.record.pkey = port.pkey;
  if (key.traffic_class != 0) {
    query.record.traffic_class = key.traffic_class;
    query.component_mask |= mad::path_mask::kTrafficClass;
  }
  in_flight_.emplace(query.id, key);
  return query;
}

std::optional<PathQueries::Key> PathQueries::key_of(std::uint32_t id) const noexcept {
  const auto at = in_flight_.find(id);
  return at == in_flight_.end() ? std::nullopt : std::optional<Key>(at->second);
}

void PathQueries::finish(std::uint32_t id, const Config& config) {
  const auto at = in_flight_.find(id);
  WIREUP_CHECK(at != in_flight_.end());
  queries_.erase(at->second);
  in_flight_.erase(at);
  pause_ = Duration::zero();
  if (++successes_ >= window_) {
    successes_ = 0;
    window_ = std::min(window_ + 1, config.sa_max_window);
  }
}

std::optional<PathQueries::Failed> PathQueries::handle_failure(std::uint32_t id,
                                                               QueryFailure failure,
                                                               const Config& config, Rng& rng,
                                                               Instant now) {
  const auto at = in_flight_.find(id);
  if (at == in_flight_.end()) {
    return std::nullopt;
  }
  const Key key = at->second;
  in_flight_.erase(at);
  Query& query = queries_.at(key);
  if (failure == QueryFailure::Refused) {
    query.state = State::Refused;
    query.due = now + config.negative_life;
    refused_.insert({query.due, key});
    return Failed{key, true};
  }
  successes_ = 0;
  if (failure == QueryFailure::Busy) {
    pause(id, config, rng, now);
  } else if (next_cut_ <= now) {
    window_ = std::max<std::size_t>(1, window_ / 2);
    next_cut_ = now + config.sa_first_retry;
  }
  if (!query.is_wanted) {
    queries_.erase(key);
    return Failed{key, true};
  }
  query.state = State::Waiting;
  query.due = now + rng.jitter(query.wait, config.jitter_percent);
  query.wait = std::min(query.wait * 2, config.sa_max_retry);
  waiting_.insert({query.due, key});
  return Failed{key, false};
}

/// The SA has more than enough to do: nothing is sent for a while, longer each time in a row, and
/// less at once after it. What was sent before the last pause tells nothing new.
void PathQueries::pause(std::uint32_t id, const Config& config, Rng& rng, Instant now) {
  if (id < first_after_pause_) {
    return;
  }
  first_after_pause_ = next_id_;
  window_ = std::max<std::size_t>(1, window_ / 2);
  pause_ = pause_ == Duration::zero() ? kFirstPause : std::min(pause_ * 2, config.sa_max_retry);
  pause_end_ = now + rng.jitter(pause_, config.jitter_percent);
}

void PathQueries::handle_timeout(Instant now) {
  while (!refused_.empty() && refused_.begin()->at <= now) {
    queries_.erase(refused_.begin()->key);
    refused_.erase(refused_.begin());
  }
}

std::optional<Instant> PathQueries::poll_timeout() const noexcept {
  std::optional<Instant> earliest;
  if (!waiting_.empty() && in_flight_.size() < window_) {
    earliest = std::max(waiting_.begin()->at, pause_end_);
  }
  if (!refused_.empty() && (!earliest.has_value() || refused_.begin()->at < *earliest)) {
    earliest = refused_.begin()->at;
  }
  return earliest;
}

}  // namespace wireup::acm
