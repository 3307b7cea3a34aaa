// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"
#include "mad/header.hpp"
#include "mad/sa.hpp"

namespace wireup::acm {

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

/// An address has a path now: it was asked for (`wanted`), or learned from what others sent.
struct PathLearned {
  mad::AcmAddress address;
  mad::PathRecord record;
  bool wanted = false;
  friend bool operator==(const PathLearned&, const PathLearned&) noexcept = default;
};

/// NoAnswer: silence until the deadline. Absent: it was silent a moment ago. NotJoined: group 0
/// could not be joined. Refused: the peer answered with a status.
enum class UnresolvedReason : std::uint8_t { NoAnswer, Absent, NotJoined, Refused };

struct PathUnresolved {
  mad::AcmAddress address;
  UnresolvedReason reason = UnresolvedReason::NoAnswer;
  /// Requests sent for it.
  unsigned attempts = 0;
  friend bool operator==(const PathUnresolved&, const PathUnresolved&) noexcept = default;
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

using Event = std::variant<PathLearned, PathUnresolved, GroupJoined, Invalidated>;

/// Why a received datagram was not used.
/// X-macro columns: name, text.
#define WIREUP_ACM_DROPS(X)                                                   \
  X(NoGrh, "no GRH")                                                          \
  X(Malformed, "not of the format")                                           \
  X(BadSource, "source LID or GID that no port can have")                     \
  X(Own, "our own, come back from the group")                                 \
  X(OwnAddress, "another queue pair claims our address")                      \
  X(SourceMismatch, "the sender is not the address it claims")                \
  X(NotReady, "our groups are not joined yet")                                \
  X(NoCommonGroup, "no group of the message is one of ours")                  \
  X(UnknownTid, "an answer to nothing we wait for")                           \
  X(ReplierMismatch, "the answer comes from another port than the one asked") \
  X(QueueFull, "an answer of ours found no room to wait for sending")

enum class Drop : std::uint8_t {
#define WIREUP_ACM_DROP_ENUMERATOR(name, text) name,
  WIREUP_ACM_DROPS(WIREUP_ACM_DROP_ENUMERATOR)
#undef WIREUP_ACM_DROP_ENUMERATOR
      kCount
};

[[nodiscard]] constexpr std::string_view drop_text(Drop drop) noexcept {
  switch (drop) {
#define WIREUP_ACM_DROP_CASE(name, text) \
  case Drop::name:                       \
    return text;
    WIREUP_ACM_DROPS(WIREUP_ACM_DROP_CASE)
#undef WIREUP_ACM_DROP_CASE
    case Drop::kCount:
      break;
  }
  return "unknown";
}

/// Counts since the engine was made.
struct Counters {
  std::uint64_t requests_sent = 0;
  /// Of the requests sent: not the first for their address.
  std::uint64_t retransmits = 0;
  std::uint64_t announcements_sent = 0;
  std::uint64_t responses_sent = 0;
  std::uint64_t requests_received = 0;
  std::uint64_t responses_received = 0;
  /// Addresses learned without having been asked for.
  std::uint64_t snooped = 0;
  /// A known address came from another queue pair: its service was restarted.
  std::uint64_t restarts = 0;
  std::uint64_t unresolved = 0;
  std::uint64_t expired = 0;
  std::uint64_t evicted = 0;
  std::uint64_t joins_failed = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Drop::kCount)> dropped{};

  [[nodiscard]] std::uint64_t drops(Drop drop) const noexcept {
    return dropped[static_cast<std::size_t>(drop)];
  }
  friend constexpr bool operator==(const Counters&, const Counters&) noexcept = default;
};

}  // namespace wireup::acm
