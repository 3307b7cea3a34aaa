// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "acm/engine/messages.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// The port behind an address, as a datagram of it showed.
struct Peer {
  Gid gid;
  Lid lid;
  Qpn qpn;
  friend constexpr bool operator==(const Peer&, const Peer&) noexcept = default;
};

enum class EntryState : std::uint8_t {
  /// Wanted, not sent yet: no place in the window, or the groups are not joined.
  Queued,
  /// Sent at least once, no answer yet.
  Asked,
  /// The port is known and its path wanted: the SA is asked.
  Routing,
  /// The path is known.
  Ready,
  /// The port is known, its path is not.
  Known,
  /// Was silent; taken as absent for a while.
  Absent,
};

struct Entry {
  EntryState state = EntryState::Queued;
  /// Queued, Routing: the deadline. Asked: the next try or the deadline. Ready: the expiry of the
  /// path. Known: that of the address. Absent: the end of it. Set by EntryTable::schedule().
  Instant due;
  Instant deadline;
  Instant asked_since;
  Duration wait{};
  unsigned attempts = 0;
  /// The first try holds a place in the window.
  bool holds_place = false;
  Tid tid;
  /// Routing, Ready and Known only; set by EntryTable::set_peer().
  std::optional<Peer> peer;
  Instant address_expiry;
  /// Of the path; kNever where it lives as long as the address.
  Instant route_expiry;
  mad::PathRecord record;
  PathOrigin origin = PathOrigin::AcmMulticast;
  /// The path that a datagram of the port makes with the group that both ends are in, whatever the
  /// protocol.
  std::optional<mad::PathRecord> heard;

  /// Somebody waits for it.
  [[nodiscard]] bool is_pending() const noexcept {
    return state == EntryState::Queued || state == EntryState::Asked ||
           state == EntryState::Routing;
  }
  friend bool operator==(const Entry&, const Entry&) noexcept = default;
};

/// The entries of an engine, with what finds them: by target, by the time they are due, by the port
/// behind them. Pending entries and the others are due in two schedules of their own, so that the
/// second one is also the order of eviction. References to entries stay good until they are erased.
class EntryTable {
 public:
  struct Due {
    Instant at;
    Target target;
    friend constexpr auto operator<=>(const Due&, const Due&) noexcept = default;
  };

  [[nodiscard]] Entry* find(const Target& target) noexcept;
  [[nodiscard]] const Entry* find(const Target& target) const noexcept;
  /// A new entry, Queued. The target must have none.
  Entry& insert(const Target& target);
  void erase(const Target& target);

  /// Must follow every change of state.
  void schedule(const Target& target, Entry& entry, Instant due);
  void unschedule(const Target& target, const Entry& entry);
  /// The pending entry, or the other one, that is due first.
  [[nodiscard]] const Due* first_pending() const noexcept;
  [[nodiscard]] const Due* first_expiry() const noexcept;

  void set_peer(const Target& target, Entry& entry, const std::optional<Peer>& peer);
  /// Entries of addresses other than its GID that a port is behind.
  [[nodiscard]] std::size_t aliases(const Gid& gid) const noexcept;
  /// Everything that the port is behind, its GID included.
  [[nodiscard]] std::set<Target> targets_of(const Gid& gid) const;
  /// The port that sent from this LID.
  [[nodiscard]] std::optional<Gid> gid_of(Lid lid) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] std::size_t pending() const noexcept { return by_retry_.size(); }
  /// For a walk over all: f(const Target&, Entry&). It must not insert or erase.
  template <typename F>
  void for_each(F f) {
    for (auto& [target, entry] : entries_) {
      f(target, entry);
    }
  }

  friend bool operator==(const EntryTable&, const EntryTable&) noexcept = default;

 private:
  std::map<Target, Entry> entries_;
  std::set<Due> by_retry_;
  std::set<Due> by_expiry_;
  std::set<std::pair<Gid, Target>> aliases_;
  /// Of the GID entries of traffic class 0.
  std::map<Lid, Gid> by_lid_;
};

}  // namespace wireup::acm
