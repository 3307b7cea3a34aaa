// SPDX-License-Identifier: BSD-3-Clause
#include "cm/engine/connection_table.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace wireup::cm {
namespace {

template <typename Map, typename Key>
std::optional<std::uint32_t> find_in(const Map& map, const Key& key) {
  const auto found = map.find(key);
  if (found == map.end()) {
    return std::nullopt;
  }
  return found->second;
}

/// Only the connection that put a name there takes it away; tells whether it did.
template <typename Map, typename Key>
bool erase_if_owner(Map& map, const Key& key, std::uint32_t index) {
  const auto found = map.find(key);
  if (found == map.end() || found->second != index) {
    return false;
  }
  map.erase(found);
  return true;
}

RemoteId remote_id_of(const Connection& connection) noexcept {
  return {connection.remote_ca_guid, connection.remote_comm_id, connection.peer.qpn};
}

RemoteQp remote_qp_of(const Connection& connection) noexcept {
  return {connection.remote_ca_guid, connection.remote_qpn};
}

}  // namespace

CommId ConnectionTable::take_comm_id() {
  // Ends: there are at most as many ids in use as slots, which are fewer than 2^32.
  while (true) {
    const CommId id(next_comm_id_++ ^ comm_id_operand_);
    if (!id.is_zero() && !by_comm_id_.contains(id)) {
      return id;
    }
  }
}

std::optional<std::uint32_t> ConnectionTable::add() {
  std::uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (slots_.size() < max_connections_) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    return std::nullopt;
  }
  Connection& connection = slots_[index];
  connection.local_comm_id = take_comm_id();
  by_comm_id_.emplace(connection.local_comm_id, index);
  return index;
}

void ConnectionTable::remove(std::uint32_t index) {
  Connection& connection = slots_[index];
  connection.timers.stop_all();
  schedule(index);
  by_comm_id_.erase(connection.local_comm_id);
  const auto [begin, end] = resting_.equal_range(connection.local_qpn);
  const auto own = std::find_if(begin, end, [&](const auto& r) { return r.second == index; });
  if (own != end) {
    resting_.erase(own);
  }
  erase_if_owner(by_remote_id_, remote_id_of(connection), index);
  erase_if_owner(by_remote_qp_, remote_qp_of(connection), index);
  const std::uint32_t next_generation = connection.generation + 1;
  connection = Connection{};
  connection.generation = next_generation;
  free_.push_back(index);
}

std::optional<std::uint32_t> ConnectionTable::find(Handle handle) const noexcept {
  if (handle.index >= slots_.size() || slots_[handle.index].generation != handle.generation ||
      slots_[handle.index].local_comm_id.is_zero()) {
    return std::nullopt;
  }
  return handle.index;
}

std::optional<std::uint32_t> ConnectionTable::find(CommId local) const {
  return find_in(by_comm_id_, local);
}

std::optional<std::uint32_t> ConnectionTable::find(const RemoteId& remote) const {
  return find_in(by_remote_id_, remote);
}

std::optional<std::uint32_t> ConnectionTable::find(const RemoteQp& remote) const {
  return find_in(by_remote_qp_, remote);
}

void ConnectionTable::name_remote_id(std::uint32_t index) {
  const bool added = by_remote_id_.emplace(remote_id_of(slots_[index]), index).second;
  WIREUP_CHECK(added);
}

bool ConnectionTable::claim_remote_qp(std::uint32_t index) {
  return by_remote_qp_.try_emplace(remote_qp_of(slots_[index]), index).first->second == index;
}

void ConnectionTable::move_peer(std::uint32_t index, const Address& to) {
  Connection& connection = slots_[index];
  const bool had_name = erase_if_owner(by_remote_id_, remote_id_of(connection), index);
  connection.peer = to;
  if (had_name) {
    // Where another connection has the name already, this one is done without.
    by_remote_id_.try_emplace(remote_id_of(connection), index);
  }
}

void ConnectionTable::rest(std::uint32_t index) {
  resting_.emplace(slots_[index].local_qpn, index);
}

std::optional<std::uint32_t> ConnectionTable::find_resting(Qpn local, const Address& peer) const {
  const auto [begin, end] = resting_.equal_range(local);
  for (auto at = begin; at != end; ++at) {
    if (is_same_source(slots_[at->second].peer, peer)) {
      return at->second;
    }
  }
  return std::nullopt;
}

void ConnectionTable::schedule(std::uint32_t index) {
  Connection& connection = slots_[index];
  const auto next = connection.timers.next();
  if (next == connection.scheduled) {
    return;
  }
  if (connection.scheduled.has_value()) {
    deadlines_.erase({*connection.scheduled, index});
  }
  if (next.has_value()) {
    deadlines_.emplace(*next, index);
  }
  connection.scheduled = next;
}

std::optional<Instant> ConnectionTable::next_deadline() const noexcept {
  if (deadlines_.empty()) {
    return std::nullopt;
  }
  return deadlines_.begin()->first;
}

std::optional<std::uint32_t> ConnectionTable::due(Instant now) const noexcept {
  if (deadlines_.empty() || deadlines_.begin()->first > now) {
    return std::nullopt;
  }
  return deadlines_.begin()->second;
}

}  // namespace wireup::cm
