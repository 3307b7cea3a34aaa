// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "acm/engine/config.hpp"
#include "acm/engine/groups.hpp"
#include "acm/engine/messages.hpp"
#include "acm/engine/port_identity.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// The ACM protocol of one port and partition, both roles: asks who has an address, answers for
/// its own, and learns from every request it hears. A value: no I/O, no clock; single-threaded.
///
/// Use: any number of commands and handle_*() calls, then poll_join(), poll_transmit() and
/// poll_event() until each is empty, then poll_timeout() for the next handle_timeout(). Time never
/// goes backwards. A handle_timeout() too early does nothing.
///
/// Requests wait until the groups are joined. Every resolve() ends in exactly one event about its
/// address that answers it: PathLearned (wanted) or PathUnresolved, at its deadline at the latest;
/// several for one address merge, the latest deadline counts.
class Engine {
 public:
  /// `locals` are the addresses answered for besides the port's GID.
  Engine(const Config& config, const PortIdentity& port, Rng rng, Instant now,
         std::vector<mad::AcmAddress> locals = {});

  /// Errc::Busy when max_entries addresses are being asked for.
  [[nodiscard]] Result<> resolve(const mad::AcmAddress& address, Instant deadline, Instant now);
  /// Forgets what is known of the address: a user found that its path does not work.
  void path_failed(const mad::AcmAddress& address);
  /// The port has another GID, LID, P_Key, rate or queue pair: everything learned is void, the
  /// groups are joined anew, and what is being asked for is asked again.
  void port_changed(const PortIdentity& port, Instant now);
  /// The SA may have lost the memberships: join again, and go on meanwhile.
  void rejoin(Instant now);

  void handle_mad(const Source& from, std::span<const std::uint8_t> bytes, Instant now);
  void handle_join_reply(const mad::McMemberRecord& record, Instant now);
  void handle_join_failure(const Gid& mgid, JoinFailure failure, Instant now);
  void handle_timeout(Instant now);

  [[nodiscard]] std::optional<JoinCommand> poll_join(Instant now);
  [[nodiscard]] std::optional<Transmit> poll_transmit();
  [[nodiscard]] std::optional<Event> poll_event();
  /// The next time at which handle_timeout() (and then poll_join()) has something to do.
  [[nodiscard]] std::optional<Instant> poll_timeout() const;

  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  [[nodiscard]] const PortIdentity& port() const noexcept { return port_; }
  /// Group 0 is joined, and every other group is or will not be for now.
  [[nodiscard]] bool is_ready() const noexcept { return groups_.is_ready(); }
  /// Addresses being asked for now.
  [[nodiscard]] std::size_t pending() const noexcept { return by_retry_.size(); }
  /// Addresses with an entry of any state.
  [[nodiscard]] std::size_t entries() const noexcept { return entries_.size(); }
  /// The path known for an address.
  [[nodiscard]] std::optional<mad::PathRecord> path(const mad::AcmAddress& address) const;

  friend bool operator==(const Engine&, const Engine&) = default;

 private:
  enum class State : std::uint8_t {
    /// Wanted, not sent yet: no place in the window, or the groups are not joined.
    Queued,
    /// Sent at least once, no answer yet.
    Asked,
    /// The path is known.
    Ready,
    /// Was silent; taken as absent for a while.
    Absent,
  };

  struct Entry {
    State state = State::Queued;
    /// Queued: the deadline. Asked: the next try or the deadline. Ready: the expiry. Absent: the
    /// end of the absence. Also the key in by_retry_ (the first two) or by_expiry_.
    Instant due;
    Instant deadline;
    Instant asked_since;
    Duration wait{};
    unsigned attempts = 0;
    /// The first try holds a place in the window.
    bool holds_place = false;
    Tid tid;
    Qpn qpn;
    mad::PathRecord record;
    friend bool operator==(const Entry&, const Entry&) noexcept = default;
  };
  using Entries = std::map<mad::AcmAddress, Entry>;
  using Schedule = std::set<std::pair<Instant, mad::AcmAddress>>;

  // engine_receive.cpp
  void handle_request(const Source& from, const mad::AcmRequest& request, Instant now);
  void handle_response(const Source& from, const mad::AcmResponse& response, Instant now);
  void answer(const Source& from, const mad::AcmRequest& request, const mad::McMemberRecord& group);
  void learn(const mad::AcmAddress& address, const Source& from, const mad::McMemberRecord& group,
             Instant now);
  [[nodiscard]] mad::PathRecord synthesise(const Source& from,
                                           const mad::McMemberRecord& group) const;
  [[nodiscard]] bool is_local(const mad::AcmAddress& address) const noexcept;
  void drop(Drop reason) noexcept { ++counters_.dropped[static_cast<std::size_t>(reason)]; }

  // engine.cpp
  void enqueue(const mad::AcmAddress& address);
  [[nodiscard]] Instant next_ask() const noexcept;
  void start_queued(Instant now);
  void ask(const mad::AcmAddress& address, Entry& entry, Instant now);
  void announce(Instant now);
  void fail_entry(Entries::iterator at, UnresolvedReason reason, Instant now);
  void fail_all_pending(UnresolvedReason reason, Instant now);
  void forget_learned();
  void schedule(const mad::AcmAddress& address, Entry& entry, Instant due);
  void unschedule(const mad::AcmAddress& address, const Entry& entry);
  void release(Entry& entry);
  void erase(Entries::iterator at);
  [[nodiscard]] bool make_room();
  void groups_changed(Instant now);
  [[nodiscard]] Destination to_group0() const noexcept;

  Config config_;
  PortIdentity port_;
  Rng rng_;
  std::vector<mad::AcmAddress> locals_;
  Groups groups_;
  bool announcing_ = false;
  unsigned announced_ = 0;
  Instant announce_due_;
  Duration announce_wait_{};
  /// When the groups were last joined or joined again.
  Instant joined_at_;
  Entries entries_;
  Schedule by_retry_;
  Schedule by_expiry_;
  std::deque<mad::AcmAddress> queue_;
  /// First tries whose answers are being waited for.
  std::size_t places_taken_ = 0;
  /// Addresses asked for since the groups were joined.
  std::size_t asked_ = 0;
  Instant ready_at_;
  std::map<Tid, mad::AcmAddress> by_tid_;
  std::deque<Transmit> transmits_;
  std::deque<Event> events_;
  Counters counters_;
};

}  // namespace wireup::acm
