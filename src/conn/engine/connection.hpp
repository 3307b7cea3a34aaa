// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "cm/engine/types.hpp"
#include "conn/engine/types.hpp"

namespace wireup::conn {

/// Where a connection stands. Active ones go Resolving - Preparing - Requesting - Finishing -
/// Ready, passive ones Resolving - Preparing - Finishing - Replying - Ready; then Closing and Over.
enum class Phase : std::uint8_t {
  /// The path is asked for.
  Resolving,
  /// The queue pair is being made.
  Preparing,
  /// REQ sent.
  Requesting,
  /// The queue pair is being moved to RTS.
  Finishing,
  /// REP sent.
  Replying,
  Ready,
  /// DREQ sent.
  Closing,
  /// Ended; the queue pair's number rests.
  Over,
};

enum class Role : std::uint8_t {
  /// We asked.
  Active,
  /// The peer asked.
  Passive,
  /// To oneself, with one queue pair and without messages.
  Loopback,
};

/// What the peer's REQ or REP says of its queue pair.
struct RemoteEnd {
  Qpn qpn;
  Psn starting_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t mtu = 0;
  /// REQ: the ACK timeout that the peer computed for its path. REP: the delay of its adapter.
  IbTimeout ack;
  friend constexpr bool operator==(const RemoteEnd&, const RemoteEnd&) noexcept = default;
};

/// Instants of a connection's way, for those that have been passed.
struct Timeline {
  Instant started;
  std::optional<Instant> card;
  std::optional<Instant> path;
  std::optional<Instant> ready;
  friend constexpr bool operator==(const Timeline&, const Timeline&) noexcept = default;
};

/// One connection or attempt at one. Data of a phase is there once the phase was entered.
struct Connection {
  ConnectionId id;
  PeerId peer;
  Role role = Role::Active;
  Phase phase = Phase::Resolving;
  /// Of the CM connection: after the REQ was sent or came.
  std::optional<cm::Handle> handle;
  /// Its first message's communication id at our end.
  std::optional<CommId> comm_id;
  /// Of the REQ that it goes by.
  std::uint32_t request_epoch = 0;
  /// As the REP settled it.
  std::uint32_t epoch = 0;
  /// The peer's incarnation, as its card or REQ tells.
  std::uint64_t incarnation = 0;
  std::optional<Path> path;
  std::optional<Qpn> qpn;
  /// What the peer shall send first.
  Psn psn;
  std::optional<RemoteEnd> remote;
  QpAttributes attributes;
  /// For the phases before the CM's own deadlines rule.
  Instant deadline;
  unsigned retransmits = 0;
  /// The user has been told that it is ready.
  bool announced = false;
  /// close() came while the REP was out: a REJ could be lost and leave the peer with a connection,
  /// so it is ended by a DREQ as soon as it is established.
  bool close_when_ready = false;
  Timeline timeline;
  friend bool operator==(const Connection&, const Connection&) noexcept = default;
};

/// A peer that we have, want or had a connection to.
struct Peer {
  std::optional<PeerCard> card;
  bool card_requested = false;
  /// As of its card, or of an accepted REQ.
  std::optional<std::uint64_t> incarnation;
  /// The one connection that counts.
  std::optional<ConnectionId> current;
  /// The user waits for a connection until `deadline`.
  bool wanted = false;
  Instant deadline;
  Instant wanted_since;
  /// The highest epoch used or seen, and the highest of a connection that was ready.
  std::uint32_t epoch = 0;
  std::uint32_t closed_epoch = 0;
  /// Attempts since the user asked.
  unsigned attempts = 0;
  friend bool operator==(const Peer&, const Peer&) noexcept = default;
};

}  // namespace wireup::conn
