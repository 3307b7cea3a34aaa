// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "acm/engine/path.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"
#include "mad/header.hpp"
#include "mad/sa.hpp"

namespace wireup::acm {

/// What is resolved: an address, for a traffic class.
struct Target {
  mad::AcmAddress address;
  std::uint8_t traffic_class = 0;
  friend constexpr auto operator<=>(const Target&, const Target&) noexcept = default;
};

/// Where a datagram came from, as its completion and GRH say.
struct Source {
  Lid slid;
  Qpn qpn;
  /// Low bits of the local LID it was sent to.
  std::uint8_t path_bits = 0;
  bool has_grh = false;
  /// From the GRH; means nothing without one.
  Gid sgid;
  friend constexpr bool operator==(const Source&, const Source&) noexcept = default;
};

/// Where a datagram goes to, always with a GRH. Static rate 0 = the port's own.
struct Destination {
  Lid dlid;
  Qpn qpn;
  Sl sl;
  std::uint8_t static_rate = 0;
  std::uint8_t path_bits = 0;
  Gid dgid;
  FlowLabel flow_label;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  friend constexpr bool operator==(const Destination&, const Destination&) noexcept = default;
};

enum class TransmitKind : std::uint8_t { Request, Announcement, Response };

/// A datagram for the driver to send with the Q_Key kAcmQKey.
struct Transmit {
  Destination to;
  mad::Mad bytes{};
  TransmitKind kind = TransmitKind::Request;
  bool is_retransmit = false;
  friend bool operator==(const Transmit&, const Transmit&) noexcept = default;
};

/// "Join this group at the SA" (Set, mad::McMemberRecord). The driver answers with
/// Engine::handle_join_reply() or handle_join_failure(), in bounded time.
struct JoinCommand {
  mad::McMemberRecord record;
  std::uint64_t component_mask = 0;
  friend bool operator==(const JoinCommand&, const JoinCommand&) noexcept = default;
};

enum class JoinFailure : std::uint8_t { NoAnswer, Refused };

/// "Ask the SA for this path" (SubnAdmGet, mad::PathRecord). The driver answers with
/// Engine::handle_path_reply() or handle_path_failure(), in bounded time.
struct PathQuery {
  std::uint32_t id = 0;
  mad::PathRecord record;
  std::uint64_t component_mask = 0;
  friend bool operator==(const PathQuery&, const PathQuery&) noexcept = default;
};

/// "Ask the SA for a whole table" (SubnAdmGetTable), of all these paths (mad::PathRecord) or of the
/// nodes that are switches (mad::NodeRecord). The driver answers with Engine::handle_path_table()
/// or handle_switches(), or handle_table_failure(), in bounded time.
struct TableQuery {
  enum class Kind : std::uint8_t { Paths, Switches };
  std::uint32_t id = 0;
  Kind kind = Kind::Paths;
  /// Of paths.
  mad::PathRecord record;
  std::uint64_t component_mask = 0;
  friend bool operator==(const TableQuery&, const TableQuery&) noexcept = default;
};

/// Busy: the SA said so, in the low byte of its status. Refused: it has no such path, or does not
/// give it. Silence and Busy are tried again.
enum class QueryFailure : std::uint8_t { NoAnswer, Busy, Refused };

/// An address has a path now: it was asked for (`wanted`), or learned from what others sent.
struct PathLearned {
  mad::AcmAddress address;
  mad::PathRecord record;
  bool wanted = false;
  std::uint8_t traffic_class = 0;
  PathOrigin origin = PathOrigin::AcmMulticast;
  friend bool operator==(const PathLearned&, const PathLearned&) noexcept = default;
};

/// NoAnswer: silence until the deadline. Absent: it was silent a moment ago. NotJoined: group 0
/// could not be joined. Refused: the peer answered with a status. OtherClass: it has no group of
/// the traffic class. NoRoute: it is known, but the SA gives no path to it. RouteTimeout: it is
/// known, but the SA was silent or busy until the deadline.
enum class UnresolvedReason : std::uint8_t {
  NoAnswer,
  Absent,
  NotJoined,
  Refused,
  OtherClass,
  NoRoute,
  RouteTimeout,
};

struct PathUnresolved {
  mad::AcmAddress address;
  UnresolvedReason reason = UnresolvedReason::NoAnswer;
  /// Requests sent for it.
  unsigned attempts = 0;
  std::uint8_t traffic_class = 0;
  friend bool operator==(const PathUnresolved&, const PathUnresolved&) noexcept = default;
};

/// What was learned of this address is no more: its life is over, or its port has another LID.
struct PathForgotten {
  mad::AcmAddress address;
  std::uint8_t traffic_class = 0;
  friend bool operator==(const PathForgotten&, const PathForgotten&) noexcept = default;
};

/// The port is a member of the group: attach the queue pair to it. Comes again when a rejoin gave
/// another LID.
struct GroupJoined {
  Gid mgid;
  Lid mlid;
  friend constexpr bool operator==(const GroupJoined&, const GroupJoined&) noexcept = default;
};

/// Everything learned before is void: empty what was stored from it.
struct Invalidated {
  friend constexpr bool operator==(const Invalidated&, const Invalidated&) noexcept = default;
};

using Event = std::variant<PathLearned, PathUnresolved, PathForgotten, GroupJoined, Invalidated>;

}  // namespace wireup::acm
