// SPDX-License-Identifier: BSD-3-Clause
#include "conn/engine/resolutions.hpp"

#include <algorithm>
#include <vector>

#include "conn/engine/rules.hpp"

namespace wireup::conn {
namespace {

std::optional<PeerId> peer_of(const PathTarget& target) noexcept {
  const auto* peer = std::get_if<PeerId>(&target);
  return peer != nullptr ? std::optional(*peer) : std::nullopt;
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

Error no_such_path(PathId id) {
  return Error::make(Errc::NotFound, "no path with id %llu: it was given up, or never resolved",
                     static_cast<unsigned long long>(id.value()));
}

}  // namespace

Result<PathId> Resolutions::resolve(const PathTarget& target, const PathWish& wish,
                                    Instant deadline, Instant now) {
  if (const auto peer = peer_of(target)) {
    if (auto allowed = check_peer(config_, *peer, deadline, now, "resolve"); !allowed) {
      return fail(allowed.error());
    }
  } else if (deadline <= now) {
    return fail(Error::make(Errc::InvalidArgument, "resolve %s: the deadline is not in the future",
                            mad::to_text(std::get<mad::AcmAddress>(target)).c_str()));
  }
  const auto [question, is_new] = by_question_.try_emplace({target, wish}, PathId(last_id_ + 1));
  const PathId id = question->second;
  if (is_new) {
    ++last_id_;
    Resolution& added = resolutions_[id];
    added.target = target;
    added.wish = wish;
    added.deadline = deadline;
    added.in_call = true;
    ask(id, added);
    return id;
  }
  Resolution& known = resolutions_.at(id);
  switch (known.state) {
    case Resolution::State::Resolved:
      break;
    case Resolution::State::Void:
      known.state = Resolution::State::Pending;
      known.deadline = deadline;
      known.in_call = true;
      ask(id, known);
      break;
    case Resolution::State::Pending:
      if (deadline > known.deadline) {
        known.deadline = deadline;
        ask(id, known);
      }
      break;
  }
  return id;
}

/// The next step of a pending one, again when its deadline has moved.
void Resolutions::ask(PathId id, const Resolution& resolution) {
  if (const auto peer = peer_of(resolution.target)) {
    const auto gid = gids_.find(*peer);
    if (*peer != config_.self && gid == gids_.end()) {
      commands_.emplace_back(RequestCard{*peer, resolution.deadline});
      return;
    }
    const Gid& to = *peer == config_.self ? config_.gid : gid->second;
    commands_.emplace_back(
        FindPath{id, mad::AcmAddress::gid(to), resolution.wish, resolution.deadline});
    return;
  }
  commands_.emplace_back(FindPath{id, std::get<mad::AcmAddress>(resolution.target), resolution.wish,
                                  resolution.deadline});
}

std::optional<Result<>> Resolutions::take_answer(PathId id) {
  if (failure_.has_value() && failure_->first == id) {
    const Error error = failure_->second;
    failure_.reset();
    return fail(error);
  }
  const auto entry = resolutions_.find(id);
  if (entry == resolutions_.end()) {
    return fail(no_such_path(id));
  }
  entry->second.in_call = false;
  return entry->second.state == Resolution::State::Resolved ? std::optional(Result<>{})
                                                            : std::nullopt;
}

Result<> Resolutions::fail_path(PathId id) {
  const auto entry = resolutions_.find(id);
  if (entry == resolutions_.end()) {
    return fail(no_such_path(id));
  }
  switch (entry->second.state) {
    case Resolution::State::Pending:
      return fail(Error::make(Errc::InvalidState, "path %llu cannot have failed: it is being found",
                              static_cast<unsigned long long>(id.value())));
    case Resolution::State::Resolved:
      end(id, entry->second, PathEnd::Failed);
      break;
    case Resolution::State::Void:
      break;
  }
  return {};
}

Result<> Resolutions::forget(PathId id) {
  if (!resolutions_.contains(id)) {
    return fail(no_such_path(id));
  }
  erase(id);
  std::erase_if(events_, [id](const PathEvent& event) {
    return std::visit([id](const auto& e) { return e.id == id; }, event);
  });
  return {};
}

void Resolutions::handle_card(const PeerId& peer, const Result<Gid>& gid) {
  if (gids_.contains(peer)) {
    return;  // whoever waited for it has gone on
  }
  std::vector<PathId> waiting;
  for (auto at = by_question_.lower_bound({peer, PathWish{}});
       at != by_question_.end() && peer_of(at->first.first) == peer; ++at) {
    if (resolutions_.at(at->second).state == Resolution::State::Pending) {
      waiting.push_back(at->second);
    }
  }
  if (gid) {
    gids_.emplace(peer, *gid);
  }
  for (const PathId id : waiting) {
    if (gid) {
      ask(id, resolutions_.at(id));
    } else {
      give_up(id, Step::Card, gid.error());
    }
  }
}

void Resolutions::handle_path(PathId id, const Result<KnownPath>& path) {
  const auto entry = resolutions_.find(id);
  if (entry == resolutions_.end() || entry->second.state != Resolution::State::Pending) {
    return;
  }
  const Result<> usable = path ? check_record(config_, path->record) : fail(path.error());
  if (!usable) {
    give_up(id, Step::Path, usable.error());
    return;
  }
  Resolution& resolution = entry->second;
  resolution.state = Resolution::State::Resolved;
  resolution.path = *path;
  if (!resolution.in_call) {
    events_.emplace_back(Resolved{id, peer_of(resolution.target)});
  }
}

void Resolutions::handle_check(PathId id, const std::optional<mad::PathRecord>& record) {
  const auto entry = resolutions_.find(id);
  // One that was found again meanwhile is newer than what was looked up.
  if (entry != resolutions_.end() && entry->second.state == Resolution::State::Resolved &&
      !entry->second.in_call && record != entry->second.path->record) {
    end(id, entry->second, PathEnd::Replaced);
  }
}

void Resolutions::handle_version(PKey pkey, const PathVersion& version) {
  if (version.basis == 0) {
    return;  // no cache now: what follows will tell
  }
  for (auto& [id, resolution] : resolutions_) {
    if (resolution.state != Resolution::State::Resolved || resolution.wish.pkey != pkey) {
      continue;
    }
    PathVersion& held = resolution.path->version;
    if (held.basis == 0) {
      held.basis = version.basis;  // it was found before the cache was there
    }
    if (held.basis != version.basis) {
      end(id, resolution, PathEnd::FabricChanged);
    } else if (held.changes != version.changes) {
      held.changes = version.changes;
      commands_.emplace_back(CheckPath{id});
    }
  }
}

void Resolutions::set_port(Lid lid, std::uint8_t lmc) noexcept {
  config_.lid = lid;
  config_.lmc = lmc;
}

std::optional<PathCommand> Resolutions::poll_command() {
  return take_front(commands_);
}
std::optional<PathEvent> Resolutions::poll_event() {
  return take_front(events_);
}

const Resolution* Resolutions::find(PathId id) const noexcept {
  const auto entry = resolutions_.find(id);
  return entry != resolutions_.end() ? &entry->second : nullptr;
}

/// A pending one comes to nothing.
void Resolutions::give_up(PathId id, Step step, const Error& error) {
  const Resolution& resolution = resolutions_.at(id);
  failure_.emplace(id, error);
  if (!resolution.in_call) {
    events_.emplace_back(Unresolved{id, peer_of(resolution.target), step, error});
  }
  erase(id);
}

void Resolutions::end(PathId id, Resolution& resolution, PathEnd reason) {
  resolution.state = Resolution::State::Void;
  events_.emplace_back(PathChanged{id, peer_of(resolution.target), reason});
}

void Resolutions::erase(PathId id) {
  const auto entry = resolutions_.find(id);
  by_question_.erase({entry->second.target, entry->second.wish});
  resolutions_.erase(entry);
}

}  // namespace wireup::conn
