// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/groups.hpp"

#include <algorithm>

namespace wireup::acm {
namespace {

constexpr std::uint8_t kScopeSiteLocal = 5;
constexpr std::uint16_t kFirstMulticastLid = 0xC000;
constexpr std::uint16_t kPermissiveLid = 0xFFFF;

// Without the lifetime and the LID, which are the SA's to choose, and without the hop limit.
constexpr std::uint64_t kJoinMask =
    mad::mc_member_mask::kMgid | mad::mc_member_mask::kPortGid | mad::mc_member_mask::kQKey |
    mad::mc_member_mask::kMtuSelector | mad::mc_member_mask::kMtu |
    mad::mc_member_mask::kTrafficClass | mad::mc_member_mask::kPKey |
    mad::mc_member_mask::kRateSelector | mad::mc_member_mask::kRate | mad::mc_member_mask::kSl |
    mad::mc_member_mask::kFlowLabel | mad::mc_member_mask::kScope | mad::mc_member_mask::kJoinState;
static_assert(kJoinMask == 0x1B3F7);

/// Can we hear and speak in a group with this record?
bool is_usable(const mad::McMemberRecord& record) noexcept {
  return record.mlid.value() >= kFirstMulticastLid && record.mlid.value() != kPermissiveLid &&
         record.qkey.value() == kAcmQKey && mad::mtu_bytes(record.mtu).has_value() &&
         mad::rate_mbps(record.rate).has_value();
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
  const auto add = [&](std::uint8_t rate, std::uint8_t mtu) {
    Group group;
    group.mgid = group_mgid(port.pkey, 0, rate, mtu);
    group.rate = rate;
    group.mtu = mtu;
    group.due = now;
    groups_.push_back(group);
  };
  add(config.min_rate, config.min_mtu);
  // A port whose speed has no code must not ask for a group of "rate 0".
  const bool is_known =
      mad::rate_mbps(port.rate).has_value() && mad::mtu_bytes(port.mtu).has_value();
  if (is_known && (port.rate != config.min_rate || port.mtu != config.min_mtu)) {
    add(port.rate, port.mtu);
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
  if (!is_usable(record)) {
    fail(*group, config, rng, now);
    return std::nullopt;
  }
  const bool was_ready = is_ready();
  JoinOutcome outcome;
  outcome.late = was_ready && !group->record.has_value();
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

mad::AcmGroups Groups::joined() const noexcept {
  mad::AcmGroups result;
  for (const Group& group : groups_) {
    if (group.record.has_value() && result.count < mad::AcmGroups::kMax) {
      result.gids[result.count++] = group.mgid;
    }
  }
  return result;
}

const mad::McMemberRecord* Groups::group0() const noexcept {
  return groups_.empty() || !groups_.front().record.has_value() ? nullptr
                                                                : &*groups_.front().record;
}

const mad::McMemberRecord* Groups::last_common(std::span<const Gid> gids) const noexcept {
  for (auto gid = gids.rbegin(); gid != gids.rend(); ++gid) {
    for (const Group& group : groups_) {
      if (group.mgid == *gid && group.record.has_value()) {
        return &*group.record;
      }
    }
  }
  return nullptr;
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
