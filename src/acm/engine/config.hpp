// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/rate.hpp"

namespace wireup::acm {

/// Q_Key of every ACM datagram and group. Bit 31 makes it privileged.
inline constexpr std::uint32_t kAcmQKey = 0x80010000;

/// A life without end, and the time at which it ends.
inline constexpr Duration kForever = Duration::max();
inline constexpr Instant kNever = Instant::max();

/// `now` plus `life`; kNever for a life that does not end in the range of the clock.
[[nodiscard]] constexpr Instant after(Instant now, Duration life) noexcept {
  return life >= kNever - now ? kNever : now + life;
}

/// A multicast group to join besides those that every ACM joins. Its MGID, by which the ends find
/// out that they share it, comes from the traffic class, rate and MTU: two groups that differ in
/// nothing but the SL need different traffic classes.
struct GroupSpec {
  /// Codes of mad/rate.hpp; 0: the port's own. More than the port can do is left out.
  std::uint8_t rate = 0;
  std::uint8_t mtu = 0;
  Sl sl;
  std::uint8_t traffic_class = 0;
  friend constexpr bool operator==(const GroupSpec&, const GroupSpec&) noexcept = default;
};

/// Where the path to a known port comes from: from the group that both ends are in, or from the SA.
/// Undecided: it is not known yet which of them gives right paths (BulkFill), and who asks waits;
/// not for Config.
enum class RouteProtocol : std::uint8_t { Acm, Sa, Undecided };

/// Is the SA asked for all paths of the port at once, at the start and when they may have changed?
/// Auto: yes, and its answer decides whether paths made of groups are right ones on this fabric.
/// Always: yes, and they are never used. Never: no.
enum class BulkPaths : std::uint8_t { Never, Auto, Always };

struct Config {
  /// Rate and MTU of group 0. Every node of a fabric must agree on them or they never hear each
  /// other; these are the defaults of other ACM implementations.
  std::uint8_t min_rate = mad::kRate10;
  std::uint8_t min_mtu = mad::kMtu2048;

  /// At most kMaxFurtherGroups.
  std::vector<GroupSpec> further_groups;

  RouteProtocol route_protocol = RouteProtocol::Acm;
  /// Path queries in flight at the SA: at first, and at most (PathQueries).
  std::size_t sa_window = 8;
  std::size_t sa_max_window = 64;
  /// Waits of a query that was met with silence or "busy", doubled each time.
  Duration sa_first_retry = std::chrono::milliseconds(500);
  Duration sa_max_retry = std::chrono::seconds(8);

  /// For drivers that can ask for tables, which is why it is off here.
  BulkPaths bulk_paths = BulkPaths::Never;
  /// How long who asks may wait for the first answer.
  Duration bulk_patience = std::chrono::seconds(2);
  /// Waits after silence or "busy", doubled each time up to the longest.
  Duration bulk_first_retry = std::chrono::seconds(2);
  Duration bulk_max_retry = std::chrono::seconds(60);
  /// After a change the SA is asked again within twice `bulk_spread`, but not sooner after the last
  /// time than `bulk_first_spacing`, doubled each time it comes soon.
  Duration bulk_spread = std::chrono::milliseconds(500);
  Duration bulk_first_spacing = std::chrono::seconds(1);

  /// Wait after the first try of a request, and the longest one. A switch may need some 100 ms to
  /// learn of a new group member, so the first tries of a fresh job can be lost: they are quick.
  Duration first_retry = std::chrono::milliseconds(25);
  Duration max_retry = std::chrono::seconds(2);
  /// Each wait is this many per cent of the one before it, plus or minus the jitter.
  unsigned backoff_percent = 160;
  unsigned jitter_percent = 25;
  /// Tries of a request; 0: as many as fit before its deadline.
  unsigned max_tries = 0;
  /// Requests whose first try may wait for its answer at the same time; later tries hold no place,
  /// so dead peers do not block the others.
  std::size_t window = 64;
  /// When a whole job starts, one datagram of each node teaches every node all it wants to know. So
  /// a fresh engine asks for `first_burst` addresses at once and then for one each `ask_spacing`,
  /// until it has been a member for `settle_time`.
  std::size_t first_burst = 8;
  Duration ask_spacing = std::chrono::milliseconds(2);
  Duration settle_time = std::chrono::milliseconds(500);

  /// A learned address is asked for again after this time; kForever: never.
  Duration address_life = std::chrono::hours(24);
  /// A path of the SA is asked for again after this time, its address is kept. Paths of groups live
  /// as long as their address.
  Duration route_life = kForever;
  /// A peer that stayed silent for at least `negative_after` is taken as absent for
  /// `negative_life`: who asks in this time is told at once.
  Duration negative_life = std::chrono::seconds(1);
  Duration negative_after = std::chrono::seconds(2);
  /// Entries kept, of all states. The one nearest to its expiry makes room for a new one.
  std::size_t max_entries = 65536;
  /// Names and IP addresses that one port can have entries for: what a port claims besides its GID
  /// cannot be checked, so that one port must not push out what others taught.
  std::size_t max_addresses_per_port = 64;
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

  /// How often a fresh engine tells the group its own address (a request for itself): whoever hears
  /// it needs no request of its own. Each wait is three times the one before it, since peers join,
  /// and switches learn of members, over some 100 ms.
  unsigned announcements = 5;
  Duration announce_interval = std::chrono::milliseconds(10);

  friend bool operator==(const Config&, const Config&) noexcept = default;
};

/// What fits in a message besides group 0 and the group of the port.
inline constexpr std::size_t kMaxFurtherGroups = 4;

/// Errc::InvalidArgument for a value that no engine can work with; the text names it, its limit and
/// what to do.
[[nodiscard]] Result<> validate(const Config& config) noexcept;

}  // namespace wireup::acm
