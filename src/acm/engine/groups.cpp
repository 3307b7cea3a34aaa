// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/groups.hpp"

#include <algorithm>
#include <tuple>

namespace wireup::acm {
namespace {

constexpr std::uint8_t kScopeSiteLocal = 5;

// Without the lifetime and the LID, which are the SA's to choose, and without the hop limit.
constexpr std::uint64_t kJoinMask =
    mad::mc_member_mask::kMgid | mad::mc_member_mask::kPortGid | mad::mc_member_mask::kQKey |
    mad::mc_member_mask::kMtuSelector | mad::mc_member_mask::kMtu |
    mad::mc_member_mask::kTrafficClass | mad::mc_member_mask::kPKey |
    mad::mc_member_mask::kRateSelector | mad::mc_member_mask::kRate | mad::mc_member_mask::kSl |
    mad::mc_member_mask::kFlowLabel | mad::mc_member_mask::kScope | mad::mc_member_mask::kJoinState;
static_assert(kJoinMask == 0x1B3F7);

/// Is it the group that was asked for, and can we hear and speak in it?
bool is_usable(const mad::McMemberRecord& record, std::uint8_t rate, std::uint8_t mtu,
               std::uint8_t traffic_class) noexcept {
  return record.rate == rate && record.mtu == mtu && record.traffic_class == traffic_class &&
         is_multicast(record.mlid) && record.qkey.value() == kAcmQKey;
}

/// Are the paths made from the two the same? They may differ in the multicast LID.
bool gives_same_paths(const mad::McMemberRecord& a, const mad::McMemberRecord& b) noexcept {
  return a.sl == b.sl && a.rate == b.rate && a.mtu == b.mtu && a.flow_label == b.flow_label &&
         a.hop_limit == b.hop_limit && a.traffic_class == b.traffic_class &&
         a.packet_lifetime == b.packet_lifetime;
}

}  // namespace

Gid group_mgid(PKey pkey, std::uint8_t traffic_class, std::uint8_t rate,
               std::uint8_t mtu) noexcept {
  const auto key = static_cast<std::uint16_t>(pkey.value() | PKey::kFullMember);
  Gid::Bytes bytes{};
  bytes[0] = 0xFF;
  bytes[1] = 0x15;
  bytes[2] = 0x40;
  bytes[3] = 0x01;
  bytes[4] = static_cast<std::uint8_t>(key >> 8U);
  bytes[5] = static_cast<std::uint8_t>(key & 0xFFU);
  bytes[6] = traffic_class;
  bytes[7] = rate;
  bytes[8] = mtu;
  return Gid(bytes);
}

Groups::Groups(const Config& config, const PortIdentity& port, Instant now) {
  add(port.pkey, {config.min_rate, config.min_mtu, Sl(), 0}, now);
  // A port whose speed has no code must not ask for a group of "rate 0".
  const auto port_rate = mad::rate_mbps(port.rate);
  const auto port_mtu = mad::mtu_bytes(port.mtu);
  if (port_rate.has_value() && port_mtu.has_value()) {
    std::vector<GroupSpec> specs{{port.rate, port.mtu, Sl(), 0}};
    for (GroupSpec spec : config.further_groups) {
      spec.rate = spec.rate == 0 ? port.rate : spec.rate;
      spec.mtu = spec.mtu == 0 ? port.mtu : spec.mtu;
      if (mad::rate_mbps(spec.rate).value_or(*port_rate + 1) <= *port_rate &&
          mad::mtu_bytes(spec.mtu).value_or(*port_mtu + 1) <= *port_mtu) {
        specs.push_back(spec);
      }
    }
    std::stable_sort(specs.begin(), specs.end(), [](const GroupSpec& a, const GroupSpec& b) {
      return std::tuple(a.traffic_class, mad::rate_mbps(a.rate), mad::mtu_bytes(a.mtu)) <
             std::tuple(b.traffic_class, mad::rate_mbps(b.rate), mad::mtu_bytes(b.mtu));
    });
    for (const GroupSpec& spec : specs) {
      add(port.pkey, spec, now);
    }
  }
  for (const Group& group : groups_) {
    traffic_classes_.push_back(group.traffic_class);
  }
  std::sort(traffic_classes_.begin(), traffic_classes_.end());
  traffic_classes_.erase(std::unique(traffic_classes_.begin(), traffic_classes_.end()),
                         traffic_classes_.end());
}

/// Does nothing when there is such a group, or when a message has no room for one more.
void Groups::add(PKey pkey, const GroupSpec& spec, Instant now) {
  Group group;
  group.mgid = group_mgid(pkey, spec.traffic_class, spec.rate, spec.mtu);
  group.rate = spec.rate;
  group.mtu = spec.mtu;
  group.sl = spec.sl;
  group.traffic_class = spec.traffic_class;
  group.due = now;
  const bool is_there = std::any_of(groups_.begin(), groups_.end(),
                                    [&](const Group& other) { return other.mgid == group.mgid; });
  if (!is_there && groups_.size() < mad::AcmGroups::kMax) {
    groups_.push_back(group);
  }
}

std::optional<JoinCommand> Groups::poll_join(const PortIdentity& port, Instant now) {
  for (Group& group : groups_) {
    if (group.state != State::Idle || group.due > now) {
      continue;
    }
    group.state = State::Joining;
    JoinCommand command;
    command.component_mask = kJoinMask;
    command.record.mgid = group.mgid;
    command.record.port_gid = port.gid;
    command.record.qkey = QKey(kAcmQKey);
    command.record.mtu_selector = mad::Selector::Exactly;
    command.record.mtu = group.mtu;
    command.record.pkey = port.pkey;
    command.record.rate_selector = mad::Selector::Exactly;
    command.record.rate = group.rate;
    command.record.sl = group.sl;
    command.record.traffic_class = group.traffic_class;
    command.record.scope = kScopeSiteLocal;
    command.record.join_state = mad::kJoinFullMember;
    return command;
  }
  return std::nullopt;
}

std::optional<Groups::JoinOutcome> Groups::handle_reply(const mad::McMemberRecord& record,
                                                        const Config& config, Rng& rng,
                                                        Instant now) {
  Group* group = find_joining(record.mgid);
  if (group == nullptr) {
    return std::nullopt;
  }
  if (!is_usable(record, group->rate, group->mtu, group->traffic_class)) {
    fail(*group, config, rng, now);
    return std::nullopt;
  }
  const bool was_ready = is_ready();
  JoinOutcome outcome;
  outcome.voids_paths =
      group->record.has_value() ? !gives_same_paths(*group->record, record) : was_ready;
  outcome.attach = !group->record.has_value() || group->record->mlid != record.mlid;
  group->state = State::Joined;
  group->failures = 0;
  group->failing_since.reset();
  group->record = record;
  return outcome;
}

bool Groups::handle_failure(const Gid& mgid, const Config& config, Rng& rng, Instant now) {
  Group* group = find_joining(mgid);
  if (group == nullptr) {
    return false;
  }
  fail(*group, config, rng, now);
  return true;
}

void Groups::fail(Group& group, const Config& config, Rng& rng, Instant now) {
  const unsigned doublings = std::min(group.failures, 16U);
  const Duration wait =
      std::min(config.join_first_retry * (std::int64_t{1} << doublings), config.join_max_retry);
  group.state = State::Idle;
  group.due = now + rng.jitter(wait, config.jitter_percent);
  ++group.failures;
  if (!group.failing_since.has_value()) {
    group.failing_since = now;
  }
}

void Groups::rejoin(Instant now) {
  for (Group& group : groups_) {
    if (group.state == State::Joined) {
      group.state = State::Idle;
      group.due = now;
    }
  }
}

bool Groups::is_ready() const noexcept {
  if (groups_.empty() || !groups_.front().record.has_value()) {
    return false;
  }
  return std::all_of(groups_.begin() + 1, groups_.end(), [](const Group& group) {
    return group.record.has_value() || group.failures >= 2;
  });
}

bool Groups::is_hopeless(Duration patience, Instant now) const noexcept {
  const auto at = hopeless_at(patience);
  return at.has_value() && *at <= now;
}

std::optional<Instant> Groups::hopeless_at(Duration patience) const noexcept {
  if (groups_.empty() || groups_.front().record.has_value() ||
      !groups_.front().failing_since.has_value()) {
    return std::nullopt;
  }
  return *groups_.front().failing_since + patience;
}

std::optional<Instant> Groups::poll_timeout() const noexcept {
  std::optional<Instant> earliest;
  for (const Group& group : groups_) {
    if (group.state == State::Idle && (!earliest.has_value() || group.due < *earliest)) {
      earliest = group.due;
    }
  }
  return earliest;
}

mad::AcmGroups Groups::joined(std::uint8_t traffic_class) const noexcept {
  mad::AcmGroups result;
  for (const bool is_class : {false, true}) {
    for (const Group& group : groups_) {
      if (group.record.has_value() && (group.traffic_class == traffic_class) == is_class) {
        result.gids[result.count++] = group.mgid;
      }
    }
  }
  return result;
}

const mad::McMemberRecord* Groups::group0() const noexcept {
  return groups_.empty() || !groups_.front().record.has_value() ? nullptr
                                                                : &*groups_.front().record;
}

const mad::McMemberRecord* Groups::last_common(
    std::span<const Gid> gids, std::optional<std::uint8_t> traffic_class) const noexcept {
  for (auto gid = gids.rbegin(); gid != gids.rend(); ++gid) {
    for (const Group& group : groups_) {
      if (group.mgid == *gid && group.record.has_value() &&
          traffic_class.value_or(group.traffic_class) == group.traffic_class) {
        return &*group.record;
      }
    }
  }
  return nullptr;
}

bool Groups::has(const Gid& mgid) const noexcept {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&](const Group& group) { return group.mgid == mgid; });
}

const mad::McMemberRecord* Groups::best(std::uint8_t traffic_class) const noexcept {
  return last_common(joined(traffic_class).span(), traffic_class);
}

std::optional<std::uint8_t> Groups::traffic_class_with(Sl sl) const noexcept {
  std::optional<std::uint8_t> found;
  for (const Group& group : groups_) {
    if (group.record.has_value() && group.record->sl == sl &&
        (!found.has_value() || group.traffic_class < *found)) {
      found = group.traffic_class;
    }
  }
  return found;
}

Groups::Group* Groups::find_joining(const Gid& mgid) noexcept {
  for (Group& group : groups_) {
    if (group.mgid == mgid && group.state == State::Joining) {
      return &group;
    }
  }
  return nullptr;
}

}  // namespace wireup::acm
