// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "cm/engine/connection.hpp"

namespace wireup::cm {

/// Owns the connections of an engine in numbered slots, finds them by the names that messages use,
/// and keeps their timers in order. A value. Indices are those of slots in use.
class ConnectionTable {
 public:
  /// Communication ids start at a random place and are spread by a random operand, so that a
  /// restarted process does not repeat those of its predecessor.
  ConnectionTable(std::size_t max_connections, Rng& rng)
      : max_connections_(max_connections),
        next_comm_id_(static_cast<std::uint32_t>(rng.next())),
        comm_id_operand_(static_cast<std::uint32_t>(rng.next())) {}

  /// A new connection in IDLE with a communication id of its own; nothing when the limit is
  /// reached.
  [[nodiscard]] std::optional<std::uint32_t> add();
  /// Ends a connection: its names and timers are gone, its handle is not valid any more.
  void remove(std::uint32_t index);

  [[nodiscard]] Connection& at(std::uint32_t index) noexcept { return slots_[index]; }
  [[nodiscard]] const Connection& at(std::uint32_t index) const noexcept { return slots_[index]; }
  [[nodiscard]] Handle handle(std::uint32_t index) const noexcept {
    return {index, slots_[index].generation};
  }
  [[nodiscard]] std::size_t size() const noexcept { return by_comm_id_.size(); }

  [[nodiscard]] std::optional<std::uint32_t> find(Handle handle) const noexcept;
  [[nodiscard]] std::optional<std::uint32_t> find(CommId local) const;
  [[nodiscard]] std::optional<std::uint32_t> find(const RemoteId& remote) const;
  [[nodiscard]] std::optional<std::uint32_t> find(const RemoteQp& remote) const;

  /// Makes the connection findable by its peer's REQ.
  void name_remote_id(std::uint32_t index);
  /// Makes the connection the owner of its peer's queue pair; false when another one is.
  [[nodiscard]] bool claim_remote_qp(std::uint32_t index);

  /// The peer is elsewhere from now on: the name that its REQ gave the connection moves along.
  void move_peer(std::uint32_t index, const Address& to);

  /// The connection enters TIMEWAIT: its queue pair rests towards its peer until remove().
  void rest(std::uint32_t index);
  /// A connection in TIMEWAIT between our queue pair and the peer's port.
  [[nodiscard]] std::optional<std::uint32_t> find_resting(Qpn local, const Address& peer) const;

  /// To be called after a change of the connection's timers.
  void schedule(std::uint32_t index);
  /// The earliest deadline of all connections.
  [[nodiscard]] std::optional<Instant> next_deadline() const noexcept;
  /// A connection with an expired timer.
  [[nodiscard]] std::optional<std::uint32_t> due(Instant now) const noexcept;

  friend bool operator==(const ConnectionTable&, const ConnectionTable&) = default;

 private:
  [[nodiscard]] CommId take_comm_id();

  std::size_t max_connections_;
  std::uint32_t next_comm_id_;
  std::uint32_t comm_id_operand_;
  std::vector<Connection> slots_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<CommId, std::uint32_t> by_comm_id_;
  std::unordered_map<RemoteId, std::uint32_t> by_remote_id_;
  std::unordered_map<RemoteQp, std::uint32_t> by_remote_qp_;
  std::unordered_multimap<Qpn, std::uint32_t> resting_;
  std::set<std::pair<Instant, std::uint32_t>> deadlines_;
};

}  // namespace wireup::cm
