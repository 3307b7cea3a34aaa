// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "mad/cm.hpp"

namespace wireup::cm {

/// Why a received message led to nothing.
enum class DropReason : std::uint8_t {
  /// Not a CM message, or one that breaks the format.
  Malformed,
  /// No connection has its communication ids.
  UnknownConnection,
  /// The ids fit, but it came from another port or queue pair than the peer's.
  WrongSource,
  /// DREQ that names another queue pair than ours.
  WrongQpn,
  /// Sent again although the first had arrived.
  Duplicate,
  /// Not allowed in the state of the connection.
  UnexpectedState,
  /// Names the queue pair of a connection that is being made or has just been made.
  Crossing,
  /// Config::max_connections are in use.
  NoRoom,
  kCount,
};
[[nodiscard]] std::string_view drop_reason_name(DropReason reason) noexcept;

/// Counts since construction, messages by index_of(CmKind).
struct Counters {
  using ByKind = std::array<std::uint64_t, mad::kCmKinds>;
  /// Given to poll_transmit(), retransmissions included.
  ByKind sent{};
  ByKind retransmitted{};
  /// Parsed, whether then dropped or not.
  ByKind received{};
  std::array<std::uint64_t, static_cast<std::size_t>(DropReason::kCount)> dropped{};
  /// Get(ClassPortInfo) that were answered.
  std::uint64_t class_port_infos = 0;
  /// Connections that reached ESTABLISHED, and deadlines that passed before.
  std::uint64_t established = 0;
  std::uint64_t failed = 0;
  friend bool operator==(const Counters&, const Counters&) noexcept = default;
};

}  // namespace wireup::cm
