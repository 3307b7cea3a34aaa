// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/bulk_fill.hpp"

#include <algorithm>
#include <set>

#include "mad/rate.hpp"

namespace wireup::acm {
namespace {

// Our own end and the partition. Paths that work both ways, since the CM answers on them, and one
// for each destination.
constexpr std::uint64_t kTableMask = mad::path_mask::kSgid | mad::path_mask::kReversible |
                                     mad::path_mask::kNumbPath | mad::path_mask::kPKey;

PathShape shape_of(const mad::PathRecord& record) noexcept {
  return {record.sl, record.mtu, record.rate};
}

}  // namespace

bool is_usable_path(const mad::PathRecord& record, const PortIdentity& port) noexcept {
  return record.sgid == port.gid && record.dgid != port.gid && !record.dgid.is_zero() &&
         !record.dgid.is_multicast() && is_unicast(record.dlid) && has_lid(port, record.slid) &&
         record.pkey.partition() == port.pkey.partition() && mad::mtu_bytes(record.mtu).has_value();
}

bool goes_with(const mad::McMemberRecord& group, const PathShape& paths) noexcept {
  const auto group_rate = mad::rate_mbps(group.rate);
  const auto path_rate = mad::rate_mbps(paths.rate);
  return group.sl == paths.sl && group.mtu <= paths.mtu && group_rate.has_value() &&
         path_rate.has_value() && *group_rate <= *path_rate;
}

BulkFill::BulkFill(const Config& config, Instant now) noexcept
    : state_(config.bulk_paths == BulkPaths::Never ? State::Off : State::Waiting),
      due_(now),
      wait_(config.bulk_first_retry),
      spacing_(config.bulk_first_spacing),
      asked_at_(now),
      patience_end_(after(now, config.bulk_patience)) {}

void BulkFill::restart(const Config& config, Rng& rng, Instant now) {
  if (state_ == State::Off) {
    return;
  }
  // All nodes of a fabric have the same reason at the same time: they are spread.
  const Instant spread = now + rng.jitter(config.bulk_spread, 99);
  const Instant due = std::max(spread, asked_at_ + spacing_);
  due_ = state_ == State::Waiting ? std::min(due_, due) : due;
  wait_ = config.bulk_first_retry;
  state_ = State::Waiting;
}

std::optional<TableQuery> BulkFill::poll(const Config& config, const PortIdentity& port,
                                         Instant now) {
  TableQuery query;
  if (state_ == State::AsksSwitches) {
    state_ = State::SwitchesInFlight;
    query.id = ++id_;
    query.kind = TableQuery::Kind::Switches;
    return query;
  }
  if (state_ != State::Waiting || due_ > now) {
    return std::nullopt;
  }
  const bool is_rare = id_ == 0 || now - asked_at_ > spacing_ * 4;
  spacing_ = is_rare ? config.bulk_first_spacing : std::min(spacing_ * 2, config.bulk_max_retry);
  state_ = State::InFlight;
  asked_at_ = now;
  query.id = ++id_;
  query.component_mask = kTableMask;
  query.record.sgid = port.gid;
  query.record.reversible = true;
  query.record.numb_path = 1;
  query.record.pkey = port.pkey;
  return query;
}

bool BulkFill::handle_table(std::uint32_t id, std::span<const mad::PathRecord> records,
                            const PortIdentity& port) {
  if (state_ != State::InFlight || id != id_) {
    return false;
  }
  judged_.clear();
  for (const mad::PathRecord& record : records) {
    if (is_usable_path(record, port)) {
      judged_.push_back({record.dgid.interface_id(), shape_of(record), record.reversible});
    }
  }
  // Where paths differ that counts at once, and is taken back if only switches' do.
  verdict_ = judge(judged_);
  if (verdict_->is_uniform) {
    settle(*verdict_);
  } else {
    state_ = State::AsksSwitches;
  }
  return true;
}

bool BulkFill::handle_switches(std::uint32_t id, std::span<const Guid> switches) {
  if (state_ != State::SwitchesInFlight || id != id_) {
    return false;
  }
  const std::set<Guid> ports(switches.begin(), switches.end());
  std::erase_if(judged_, [&](const Judged& path) { return ports.contains(path.port); });
  settle(judge(judged_));
  return true;
}

BulkFill::Verdict BulkFill::judge(std::span<const Judged> paths) noexcept {
  Verdict verdict;
  for (const Judged& path : paths) {
    verdict.is_uniform = verdict.is_uniform && path.is_reversible &&
                         verdict.shape.value_or(path.shape) == path.shape;
    verdict.shape = path.shape;
  }
  return verdict;
}

void BulkFill::settle(const Verdict& verdict) noexcept {
  state_ = State::Done;
  verdict_ = verdict;
  judged_ = {};
}

bool BulkFill::handle_failure(std::uint32_t id, QueryFailure failure, const Config& config,
                              Rng& rng, Instant now) {
  if (state_ == State::SwitchesInFlight && id == id_) {
    settle(judge(judged_));
    return true;
  }
  if (state_ != State::InFlight || id != id_) {
    return false;
  }
  state_ = State::Waiting;
  // An SA that has no such table will not have it in a moment either.
  const Duration wait = failure == QueryFailure::Refused ? config.bulk_max_retry : wait_;
  due_ = now + rng.jitter(wait, config.jitter_percent);
  wait_ = std::min(wait_ * 2, config.bulk_max_retry);
  if (failure == QueryFailure::Refused) {
    patience_end_ = std::min(patience_end_, now);
  }
  return true;
}

std::optional<Instant> BulkFill::poll_timeout() const noexcept {
  return state_ == State::Waiting ? std::optional(due_) : std::nullopt;
}

RouteProtocol BulkFill::protocol(const Config& config, const mad::McMemberRecord* group,
                                 Instant now) const noexcept {
  if (config.bulk_paths == BulkPaths::Never) {
    return config.route_protocol;
  }
  if (config.bulk_paths == BulkPaths::Always) {
    return verdict_.has_value() || patience_end_ <= now ? RouteProtocol::Sa
                                                        : RouteProtocol::Undecided;
  }
  const RouteProtocol without =
      patience_end_ <= now ? config.route_protocol : RouteProtocol::Undecided;
  if (!verdict_.has_value()) {
    return without;
  }
  if (!verdict_->is_uniform || config.route_protocol == RouteProtocol::Sa) {
    return RouteProtocol::Sa;
  }
  if (!verdict_->shape.has_value()) {
    return RouteProtocol::Acm;
  }
  if (group == nullptr) {
    return without;
  }
  return goes_with(*group, *verdict_->shape) ? RouteProtocol::Acm : RouteProtocol::Sa;
}

}  // namespace wireup::acm
