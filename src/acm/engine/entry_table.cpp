// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/entry_table.hpp"

#include <iterator>

#include "base/check.hpp"

namespace wireup::acm {
namespace {

/// Smaller than every target but the empty name's, which does not exist.
Target lowest_target() noexcept {
  return {*mad::AcmAddress::name("\x01"), 0};
}

bool is_gid_of(const Target& target, const Gid& gid) noexcept {
  return target.address == mad::AcmAddress::gid(gid);
}

}  // namespace

Entry* EntryTable::find(const Target& target) noexcept {
  const auto at = entries_.find(target);
  return at == entries_.end() ? nullptr : &at->second;
}

const Entry* EntryTable::find(const Target& target) const noexcept {
  const auto at = entries_.find(target);
  return at == entries_.end() ? nullptr : &at->second;
}

Entry& EntryTable::insert(const Target& target) {
  const auto [at, is_new] = entries_.emplace(target, Entry{});
  WIREUP_CHECK(is_new);
  return at->second;
}

void EntryTable::erase(const Target& target) {
  const auto at = entries_.find(target);
  WIREUP_CHECK(at != entries_.end());
  set_peer(at->first, at->second, std::nullopt);
  unschedule(at->first, at->second);
  entries_.erase(at);
}

void EntryTable::schedule(const Target& target, Entry& entry, Instant due) {
  unschedule(target, entry);
  entry.due = due;
  (entry.is_pending() ? by_retry_ : by_expiry_).insert({due, target});
}

void EntryTable::unschedule(const Target& target, const Entry& entry) {
  // The state may have changed since it was scheduled.
  const Due due{entry.due, target};
  if (by_retry_.erase(due) == 0) {
    by_expiry_.erase(due);
  }
}

const EntryTable::Due* EntryTable::first_pending() const noexcept {
  return by_retry_.empty() ? nullptr : &*by_retry_.begin();
}

const EntryTable::Due* EntryTable::first_expiry() const noexcept {
  return by_expiry_.empty() ? nullptr : &*by_expiry_.begin();
}

void EntryTable::set_peer(const Target& target, Entry& entry, const std::optional<Peer>& peer) {
  if (entry.peer == peer) {
    return;
  }
  if (entry.peer.has_value()) {
    if (!is_gid_of(target, entry.peer->gid)) {
      aliases_.erase({entry.peer->gid, target});
    } else if (target.traffic_class == 0) {
      const auto at = by_lid_.find(entry.peer->lid);
      if (at != by_lid_.end() && at->second == entry.peer->gid) {
        by_lid_.erase(at);
      }
    }
  }
  entry.peer = peer;
  if (peer.has_value()) {
    if (!is_gid_of(target, peer->gid)) {
      aliases_.insert({peer->gid, target});
    } else if (target.traffic_class == 0 && !peer->lid.is_zero()) {
      by_lid_[peer->lid] = peer->gid;
    }
  }
}

std::size_t EntryTable::aliases(const Gid& gid) const noexcept {
  std::size_t count = 0;
  for (auto at = aliases_.lower_bound({gid, lowest_target()});
       at != aliases_.end() && at->first == gid; ++at) {
    ++count;
  }
  return count;
}

std::set<Target> EntryTable::targets_of(const Gid& gid) const {
  std::set<Target> result;
  const mad::AcmAddress address = mad::AcmAddress::gid(gid);
  for (auto at = entries_.lower_bound({address, 0});
       at != entries_.end() && at->first.address == address; ++at) {
    result.insert(at->first);
  }
  for (auto at = aliases_.lower_bound({gid, lowest_target()});
       at != aliases_.end() && at->first == gid; ++at) {
    result.insert(at->second);
  }
  return result;
}

std::optional<Gid> EntryTable::gid_of(Lid lid) const noexcept {
  const auto at = by_lid_.find(lid);
  return at == by_lid_.end() ? std::nullopt : std::optional<Gid>(at->second);
}

}  // namespace wireup::acm
