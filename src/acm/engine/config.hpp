// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.hpp"
#include "mad/rate.hpp"

namespace wireup::acm {

/// Q_Key of every ACM datagram and group. Bit 31 makes it privileged.
inline constexpr std::uint32_t kAcmQKey = 0x80010000;

struct Config {
  /// Rate and MTU of group 0. Every node of a fabric must agree on them or they never hear each
  /// other; these are the defaults of other ACM implementations.
  std::uint8_t min_rate = mad::kRate10;
  std::uint8_t min_mtu = mad::kMtu2048;

  /// Wait after the first try of a request, and the longest one. A switch may need some 100 ms to
  /// learn of a new group member, so the first tries of a fresh job can be lost: they are quick.
  Duration first_retry = std::chrono::milliseconds(25);
  Duration max_retry = std::chrono::seconds(2);
  /// Each wait is this many per cent of the one before it, plus or minus the jitter.
  unsigned backoff_percent = 160;
  unsigned jitter_percent = 25;
  /// Requests whose first try may wait for its answer at the same time; later tries hold no place,
  /// so dead peers do not block the others.
  std::size_t window = 64;
  /// When a whole job starts, one datagram of each node teaches every node all it wants to know. So
  /// a fresh engine asks for `first_burst` addresses at once and then for one each `ask_spacing`,
  /// until it has been a member for `settle_time`.
  std::size_t first_burst = 8;
  Duration ask_spacing = std::chrono::milliseconds(2);
  Duration settle_time = std::chrono::milliseconds(500);

  /// A learned address is asked for again after this time.
  Duration address_life = std::chrono::hours(24);
  /// A peer that stayed silent for at least `negative_after` is taken as absent for
  /// `negative_life`: who asks in this time is told at once.
  Duration negative_life = std::chrono::seconds(1);
  Duration negative_after = std::chrono::seconds(2);
  /// Entries kept, of all states. The one nearest to its expiry makes room for a new one.
  std::size_t max_entries = 65536;
  /// Datagrams waiting for the driver; above it responses are dropped and requests wait for their
  /// retry.
  std::size_t max_transmits = 1024;

  /// Waits between tries to join a group, doubled each time up to the longest.
  Duration join_first_retry = std::chrono::milliseconds(250);
  Duration join_max_retry = std::chrono::seconds(5);
  /// While group 0 could not be joined for this long, requests fail at once.
  Duration join_patience = std::chrono::seconds(6);
  /// A request tried this often without an answer makes the engine join its groups again, at most
  /// once in the interval: a restarted subnet manager has forgotten the memberships.
  unsigned rejoin_after_tries = 5;
  Duration rejoin_interval = std::chrono::seconds(10);

  /// How often a fresh engine tells the group its own address (a request for itself): whoever
  /// hears it needs no request of its own. Each wait is three times the one before it, since peers
  /// join, and switches learn of members, over some 100 ms.
  unsigned announcements = 5;
  Duration announce_interval = std::chrono::milliseconds(10);

  friend constexpr bool operator==(const Config&, const Config&) noexcept = default;
};

}  // namespace wireup::acm
