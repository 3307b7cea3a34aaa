// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "base/timer_table.hpp"
#include "cm/engine/events.hpp"
#include "cm/engine/state.hpp"
#include "cm/engine/types.hpp"

namespace wireup::cm {

enum class Timer : std::uint8_t {
  /// Send the last message again.
  Retransmit,
  /// Give up what is being waited for.
  Deadline,
  /// Forget the connection.
  Timewait,
  kCount,
};

/// A peer's connection as its REQ names it. The queue pair of the sender's CM is part of it: ranks
/// of a node share the channel adapter's GUID but not their CM queue pairs.
struct RemoteId {
  Guid ca_guid;
  CommId comm_id;
  Qpn cm_qpn;
  friend constexpr bool operator==(const RemoteId&, const RemoteId&) noexcept = default;
};

/// A peer's queue pair. Numbers are unique within a channel adapter.
struct RemoteQp {
  Guid ca_guid;
  Qpn qpn;
  friend constexpr bool operator==(const RemoteQp&, const RemoteQp&) noexcept = default;
};

/// What is kept of a connection; every field is set on entering the phase that needs it.
struct Connection {
  State state = State::Idle;
  /// The kind of last_sent.
  mad::CmKind last_kind = mad::CmKind::Req;
  IbTimeout local_ack_timeout;
  /// We sent the REQ.
  bool is_active = false;
  /// In callers_ of the engine.
  bool is_caller = false;
  /// REP names the target's queue pair in its EECN (XRC).
  bool is_xrc = false;
  Policy policy;
  /// With Timers::Iba: how often a message is repeated.
  std::uint8_t max_cm_retries = 15;
  std::uint32_t generation = 0;
  CommId local_comm_id;
  CommId remote_comm_id;
  Qpn local_qpn;
  Qpn remote_qpn;
  /// How often last_sent was sent.
  std::uint32_t attempts = 0;
  Address peer;
  Guid local_ca_guid;
  Guid remote_ca_guid;
  /// TID of the running exchange: the REQ's, later the DREQ's.
  Tid tid;
  TimerTable<Timer> timers;
  /// The timers' earliest deadline as the connection table has it.
  std::optional<Instant> scheduled;
  /// When last_sent was first sent; in ESTABLISHED, when that was entered.
  Instant since;
  /// The current retransmission interval, without jitter; with Timers::Iba the only one.
  Duration interval{};
  /// To be reported when the release is complete.
  std::optional<DisconnectCause> unreported;
  /// The message to send again, without the zeros at its end; empty when there is none.
  std::vector<std::uint8_t> last_sent;
  friend bool operator==(const Connection&, const Connection&) = default;
};

/// Connections idle in ESTABLISHED are what a big job holds by the thousand.
static_assert(sizeof(Connection) <= 216);

}  // namespace wireup::cm

template <>
struct std::hash<wireup::cm::RemoteId> {
  std::size_t operator()(const wireup::cm::RemoteId& id) const noexcept {
    const std::uint64_t ids = std::uint64_t{id.comm_id.value()} << 32U | id.cm_qpn.value();
    return std::hash<std::uint64_t>{}((id.ca_guid.value() ^ ids) * 0x9E3779B97F4A7C15ULL);
  }
};

template <>
struct std::hash<wireup::cm::RemoteQp> {
  std::size_t operator()(const wireup::cm::RemoteQp& qp) const noexcept {
    const std::uint64_t number = std::uint64_t{qp.qpn.value()} << 40U;
    return std::hash<std::uint64_t>{}((qp.ca_guid.value() ^ number) * 0x9E3779B97F4A7C15ULL);
  }
};
