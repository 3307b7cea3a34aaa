// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "acm/engine/config.hpp"
#include "acm/engine/messages.hpp"
#include "acm/engine/port_identity.hpp"
#include "base/ids.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// MGID of the group of a partition, traffic class, rate and MTU. The membership bit of the P_Key
/// is set in it whatever the port has, so that limited members meet the full ones.
[[nodiscard]] Gid group_mgid(PKey pkey, std::uint8_t traffic_class, std::uint8_t rate,
                             std::uint8_t mtu) noexcept;

/// The multicast groups of a port: group 0, which carries all requests; the configured further
/// groups that the port can be in; and the group of the port's own rate and MTU where it is another
/// one, whose parameters the paths between equal ports take. Within a traffic class they are in
/// ascending preference. Joins are kept up and tried again; there is no leaving, since an SA
/// membership belongs to the port and is not counted per program.
class Groups {
 public:
  enum class State : std::uint8_t { Idle, Joining, Joined };

  Groups() = default;
  Groups(const Config& config, const PortIdentity& port, Instant now);

  /// The next join that is due, now in flight.
  [[nodiscard]] std::optional<JoinCommand> poll_join(const PortIdentity& port, Instant now);

  struct JoinOutcome {
    /// The reply was good and names another group LID than before, or the first.
    bool attach = false;
    /// Paths were made without this group, or from what it was before: it came after the groups
    /// were taken as settled, or came back with another SL, rate, MTU, lifetime or the like.
    bool voids_paths = false;
  };
  /// Nothing when no join of this group is in flight, or the reply is not one for it; the second
  /// counts as a failed join.
  [[nodiscard]] std::optional<JoinOutcome> handle_reply(const mad::McMemberRecord& record,
                                                        const Config& config, Rng& rng,
                                                        Instant now);
  /// False when no join of this group is in flight.
  bool handle_failure(const Gid& mgid, const Config& config, Rng& rng, Instant now);

  /// Joins all groups again while they stay in use: the SA may have forgotten them.
  void rejoin(Instant now);

  /// Group 0 is joined, and every other one is joined or has failed at least twice.
  [[nodiscard]] bool is_ready() const noexcept;
  /// Group 0 has not been joined for at least `patience` of trying.
  [[nodiscard]] bool is_hopeless(Duration patience, Instant now) const noexcept;
  /// When is_hopeless() becomes true if nothing changes.
  [[nodiscard]] std::optional<Instant> hopeless_at(Duration patience) const noexcept;
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept;

  /// The joined groups, for a request: those of the traffic class last, where the hearer looks for
  /// the one to take, in ascending preference.
  [[nodiscard]] mad::AcmGroups joined(std::uint8_t traffic_class) const noexcept;
  /// The record of group 0; nothing before it is joined.
  [[nodiscard]] const mad::McMemberRecord* group0() const noexcept;
  /// The last of `gids` that is a joined group of ours, of the traffic class if one is given: what
  /// the path between the two is to use.
  [[nodiscard]] const mad::McMemberRecord* last_common(
      std::span<const Gid> gids,
      std::optional<std::uint8_t> traffic_class = std::nullopt) const noexcept;
  /// Is it one of the groups, joined or not?
  [[nodiscard]] bool has(const Gid& mgid) const noexcept;
  /// The joined group that paths of the class are preferably made of.
  [[nodiscard]] const mad::McMemberRecord* best(std::uint8_t traffic_class) const noexcept;
  /// The traffic classes of all groups, ascending; 0 is always one.
  [[nodiscard]] const std::vector<std::uint8_t>& traffic_classes() const noexcept {
    return traffic_classes_;
  }
  /// The traffic class of a joined group with this SL; 0 where several have it.
  [[nodiscard]] std::optional<std::uint8_t> traffic_class_with(Sl sl) const noexcept;

  friend bool operator==(const Groups&, const Groups&) noexcept = default;

 private:
  struct Group {
    Gid mgid;
    std::uint8_t rate = 0;
    std::uint8_t mtu = 0;
    Sl sl;
    std::uint8_t traffic_class = 0;
    State state = State::Idle;
    /// When to join (Idle).
    Instant due;
    unsigned failures = 0;
    std::optional<Instant> failing_since;
    /// The SA's reply. Kept, and in use, while a rejoin runs.
    std::optional<mad::McMemberRecord> record;
    friend bool operator==(const Group&, const Group&) noexcept = default;
  };

  [[nodiscard]] Group* find_joining(const Gid& mgid) noexcept;
  static void fail(Group& group, const Config& config, Rng& rng, Instant now);

  void add(PKey pkey, const GroupSpec& spec, Instant now);

  std::vector<Group> groups_;
  std::vector<std::uint8_t> traffic_classes_;
};

}  // namespace wireup::acm
