// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "acm/engine/bulk_fill.hpp"
#include "acm/engine/config.hpp"
#include "acm/engine/counters.hpp"
#include "acm/engine/entry_table.hpp"
#include "acm/engine/groups.hpp"
#include "acm/engine/local_addresses.hpp"
#include "acm/engine/messages.hpp"
#include "acm/engine/path_queries.hpp"
#include "acm/engine/port_identity.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// The ACM protocol of one port and partition, both roles: asks who has an address, answers for its
/// own, and learns from every request it hears. A value: no I/O, no clock; single-threaded.
///
/// What a datagram teaches is the port that sent it: the path is then known under the address that
/// the datagram claims, under the port's GID and, for who waits for it, under its LID.
///
/// The path to a known port is made from the multicast group that both ends share
/// (RouteProtocol::Acm), or asked of the SA when somebody wants it (RouteProtocol::Sa). An answer
/// to another port never waits for the SA, and a port stays known when only its path failed. With
/// Config::bulk_paths the SA is asked for all paths at once, and what it says decides which of the
/// two is used; until then who asks waits. A path that the SA gave is kept while its port is heard
/// from the same LID.
///
/// Use: any number of commands and handle_*() calls, then poll_join(), poll_path_query(),
/// poll_table_query(), poll_transmit() and poll_event() until each is empty, then poll_timeout()
/// for the next handle_timeout(). Time never goes backwards. A handle_timeout() too early does
/// nothing.
///
/// Requests wait until the groups are joined. Every resolve() ends in exactly one event about its
/// address that answers it: PathLearned (wanted) or PathUnresolved, at its deadline at the latest;
/// several for one address merge, the latest deadline counts.
class Engine {
 public:
  /// `config` must pass validate(). `locals` are the addresses answered for besides the port's GID
  /// and LIDs.
  Engine(const Config& config, const PortIdentity& port, Rng rng, Instant now,
         const std::vector<mad::AcmAddress>& locals = {});

  /// Errc::Busy when max_entries addresses are being asked for. Errc::InvalidArgument when no group
  /// is configured for the traffic class.
  [[nodiscard]] Result<> resolve(const mad::AcmAddress& address, Instant deadline, Instant now,
                                 std::uint8_t traffic_class = 0);
  /// A user found that the path of this address does not work: forgets it, with everything else
  /// that is known of the port behind it.
  void path_failed(const mad::AcmAddress& address);
  /// Everything learned is void; what is being asked for goes on.
  void forget_learned();
  /// The names and IP addresses answered for changed. Who waits for one that is ours now is told.
  void set_locals(const std::vector<mad::AcmAddress>& locals);
  /// The port has another GID, LID, P_Key, rate or queue pair: everything learned is void, the
  /// groups are joined anew, and what is being asked for is asked again.
  void port_changed(const PortIdentity& port, Instant now);
  /// The SA may have lost the memberships: join again, and go on meanwhile.
  void rejoin(Instant now);
  /// The SA may give other paths now than it did (a new master, a new sweep): those that it gave
  /// are void, who is where stays known.
  void routes_changed(Instant now);
  /// The SA says that a port left the fabric, or is there (again): what is known of it is void. The
  /// path to one that was known and is there is asked for again.
  void port_left(const Gid& gid);
  void port_came(const Gid& gid, Instant now);

  void handle_mad(const Source& from, std::span<const std::uint8_t> bytes, Instant now);
  void handle_join_reply(const mad::McMemberRecord& record, Instant now);
  void handle_join_failure(const Gid& mgid, JoinFailure failure, Instant now);
  void handle_path_reply(std::uint32_t id, const mad::PathRecord& record, Instant now);
  void handle_path_failure(std::uint32_t id, QueryFailure failure, Instant now);
  void handle_path_table(std::uint32_t id, std::span<const mad::PathRecord> records, Instant now);
  /// The port GUIDs of the subnet's switches.
  void handle_switches(std::uint32_t id, std::span<const Guid> switches, Instant now);
  void handle_table_failure(std::uint32_t id, QueryFailure failure, Instant now);
  void handle_timeout(Instant now);

  [[nodiscard]] std::optional<JoinCommand> poll_join(Instant now);
  [[nodiscard]] std::optional<PathQuery> poll_path_query(Instant now);
  [[nodiscard]] std::optional<TableQuery> poll_table_query(Instant now);
  [[nodiscard]] std::optional<Transmit> poll_transmit();
  [[nodiscard]] std::optional<Event> poll_event();
  /// The next time at which handle_timeout() (and then poll_join()) has something to do.
  [[nodiscard]] std::optional<Instant> poll_timeout() const;

  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  [[nodiscard]] const PortIdentity& port() const noexcept { return port_; }
  /// Group 0 is joined, and every other group is or will not be for now.
  [[nodiscard]] bool is_ready() const noexcept { return groups_.is_ready(); }
  /// Addresses being asked for now.
  [[nodiscard]] std::size_t pending() const noexcept { return entries_.pending(); }
  /// Addresses with an entry of any state.
  [[nodiscard]] std::size_t entries() const noexcept { return entries_.size(); }
  /// The path known for an address.
  [[nodiscard]] std::optional<mad::PathRecord> path(const mad::AcmAddress& address,
                                                    std::uint8_t traffic_class = 0) const;
  /// Where the path known for an address came from.
  [[nodiscard]] std::optional<PathOrigin> origin(const mad::AcmAddress& address,
                                                 std::uint8_t traffic_class = 0) const;
  /// Where new paths come from now.
  [[nodiscard]] RouteProtocol route_protocol() const noexcept { return protocol_; }
  /// Is it one of the groups of the port?
  [[nodiscard]] bool is_group(const Gid& mgid) const noexcept { return groups_.has(mgid); }
  /// The traffic class whose group has this SL.
  [[nodiscard]] std::optional<std::uint8_t> traffic_class_with(Sl sl) const noexcept {
    return groups_.traffic_class_with(sl);
  }

  friend bool operator==(const Engine&, const Engine&) = default;

 private:
  // engine.cpp
  void groups_changed(Instant now);
  void announce(Instant now);
  void answer_locals();
  [[nodiscard]] PathLearned local_learned(const Target& target) const noexcept;
  [[nodiscard]] bool is_local(const mad::AcmAddress& address) const noexcept {
    return locals_.contains(address, port_);
  }

  // engine_ask.cpp
  void enqueue(const Target& target);
  [[nodiscard]] Instant next_ask() const noexcept;
  void start_queued(Instant now);
  void ask(const Target& target, Entry& entry, Instant now);
  void retry_or_fail(const Target& target, Entry& entry, Instant now);
  void fail_entry(const Target& target, UnresolvedReason reason, Instant now);
  void fail_all_pending(UnresolvedReason reason, Instant now);
  void release(Entry& entry);
  void erase(const Target& target);
  [[nodiscard]] bool make_room();
  [[nodiscard]] Destination along(const mad::McMemberRecord& group) const noexcept;
  [[nodiscard]] Destination to_group0() const noexcept;

  // engine_route.cpp
  void want_route(const Target& target, Entry& entry, Instant now);
  void make_ready(const Target& target, Entry& entry, const mad::PathRecord& record,
                  PathOrigin origin, bool wanted);
  void make_known(const Target& target, Entry& entry);
  void fail_route(const Target& target, Entry& entry, UnresolvedReason reason);
  void cancel_unwanted(const PathQueries::Key& key);
  void learn_address(const Target& target, Entry& entry, const Peer& peer, Instant now);
  void expire(const Target& target, Entry& entry, Instant now);

  // engine_table.cpp
  void update_protocol(Instant now);
  void use_sa(Instant now);
  void use_groups(Instant now);
  void learn_route(const mad::PathRecord& record, Instant now);
  void take_route(const Target& target, const mad::PathRecord& record, Instant now);
  [[nodiscard]] bool take_known_route(const Target& target, Entry& entry);
  bool forget_port(const Gid& gid);
  [[nodiscard]] bool asks_sa_by_gid(const Target& target) const noexcept;
  void ask_sa_by_gid(const Target& target, Instant deadline, Instant now);

  // engine_receive.cpp
  void handle_request(const Source& from, const mad::AcmRequest& request, Instant now);
  void handle_response(const Source& from, const mad::AcmResponse& response, Instant now);
  void answer(const Source& from, const mad::AcmRequest& request, const mad::McMemberRecord& group);
  void learn_port(const mad::AcmAddress& claimed, const Source& from, std::span<const Gid> groups,
                  Instant now);
  void learn(const Target& target, const Source& from, const mad::PathRecord& record, Instant now);
  void copy_from_gid(const Target& target);
  [[nodiscard]] mad::PathRecord synthesise(const Source& from,
                                           const mad::McMemberRecord& group) const;
  void drop(Drop reason) noexcept { ++counters_.dropped[static_cast<std::size_t>(reason)]; }

  Config config_;
  PortIdentity port_;
  Rng rng_;
  LocalAddresses locals_;
  Groups groups_;
  bool announcing_ = false;
  unsigned announced_ = 0;
  Instant announce_due_;
  Duration announce_wait_{};
  /// When the groups were last joined or joined again.
  Instant joined_at_;
  EntryTable entries_;
  PathQueries queries_;
  BulkFill bulk_;
  RouteProtocol protocol_;
  /// Known ports that the SA said to have left, as long as they have not come back.
  std::set<Gid> gone_;
  /// Ports that came back, whose paths are being asked for though nobody waits for them.
  std::set<Gid> returning_;
  std::deque<Target> queue_;
  /// First tries whose answers are being waited for.
  std::size_t places_taken_ = 0;
  /// Addresses asked for since the groups were joined.
  std::size_t asked_ = 0;
  Instant ready_at_;
  std::map<Tid, Target> by_tid_;
  std::deque<Transmit> transmits_;
  std::deque<Event> events_;
  Counters counters_;
};

}  // namespace wireup::acm
