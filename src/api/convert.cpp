// SPDX-License-Identifier: BSD-3-Clause
#include "api/convert.hpp"

#include <cstdio>
#include <numeric>
#include <optional>
#include <string_view>

#include "mad/rate.hpp"

namespace wireup::api {
namespace {

std::uint64_t nanoseconds_between(std::optional<Instant> from, std::optional<Instant> to) noexcept {
  return from.has_value() && to.has_value() && *to > *from
             ? static_cast<std::uint64_t>((*to - *from).count())
             : 0;
}

/// "what", if anything, and that the path was the card's.
void copy_with_reason(char (&to)[WIREUP_MAX_TEXT + 1], std::string_view what,
                      const std::optional<Error>& reason) noexcept {
  if (!reason.has_value()) {
    copy_text(to, what);
    return;
  }
  const std::string_view why = reason->what();
  std::snprintf(to, sizeof to,
                "%.*s%sthe path is the peer's card's, verified by nobody, since %.*s",
                static_cast<int>(what.size()), what.data(), what.empty() ? "" : "; ",
                static_cast<int>(why.size()), why.data());
}

std::uint64_t sum(const cm::Counters::ByKind& counts) noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::uint32_t rank_of(const std::optional<PeerId>& peer) noexcept {
  return peer.has_value() ? peer->rank : WIREUP_NO_RANK;
}

// The numbers of the C API are those of the engine; a wrong table fails here.
static_assert(static_cast<int>(conn::Step::Card) == WIREUP_STEP_CARD);
static_assert(static_cast<int>(conn::Step::Path) == WIREUP_STEP_PATH);
static_assert(static_cast<int>(conn::Step::Qp) == WIREUP_STEP_QP);
static_assert(static_cast<int>(conn::Step::Request) == WIREUP_STEP_REQUEST);
static_assert(static_cast<int>(conn::Step::Reply) == WIREUP_STEP_REPLY);
static_assert(static_cast<int>(conn::Step::ReadyToUse) == WIREUP_STEP_READY_TO_USE);
static_assert(static_cast<int>(conn::Step::Disconnect) == WIREUP_STEP_DISCONNECT);
static_assert(static_cast<int>(conn::EndReason::Local) == WIREUP_REASON_LOCAL);
static_assert(static_cast<int>(conn::EndReason::Peer) == WIREUP_REASON_PEER);
static_assert(static_cast<int>(conn::EndReason::NoAnswer) == WIREUP_REASON_NO_ANSWER);
static_assert(static_cast<int>(conn::EndReason::Replaced) == WIREUP_REASON_REPLACED);
static_assert(static_cast<int>(conn::PathEnd::FabricChanged) == WIREUP_REASON_FABRIC_CHANGED);
static_assert(static_cast<int>(conn::PathEnd::Replaced) == WIREUP_REASON_PATH_REPLACED);
static_assert(static_cast<int>(conn::PathEnd::Failed) == WIREUP_REASON_PATH_FAILED);
static_assert(static_cast<int>(conn::Resolution::State::Pending) == WIREUP_PATH_STATE_PENDING);
static_assert(static_cast<int>(conn::Resolution::State::Resolved) == WIREUP_PATH_STATE_RESOLVED);
static_assert(static_cast<int>(conn::Resolution::State::Void) == WIREUP_PATH_STATE_VOID);
static_assert(mad::PathRecord::kSize == WIREUP_PATH_RECORD_SIZE);
static_assert(static_cast<int>(acm::PathOrigin::Local) == WIREUP_PATH_LOCAL);
static_assert(static_cast<int>(acm::PathOrigin::AcmMulticast) == WIREUP_PATH_ACM_MULTICAST);
static_assert(static_cast<int>(acm::PathOrigin::SaQuery) == WIREUP_PATH_SA_QUERY);
static_assert(static_cast<int>(acm::PathOrigin::Card) == WIREUP_PATH_CARD);
static_assert(static_cast<int>(acm::PathOrigin::Preloaded) == WIREUP_PATH_PRELOADED);
static_assert(static_cast<int>(acm::PathOrigin::Ibacm) == WIREUP_PATH_IBACM);
static_assert(static_cast<int>(acm::PathOrigin::Kernel) == WIREUP_PATH_KERNEL);
static_assert(static_cast<int>(Errc::InvalidArgument) == WIREUP_ERR_INVALID_ARGUMENT);
static_assert(static_cast<int>(Errc::NoDevice) == WIREUP_ERR_NO_DEVICE);
static_assert(static_cast<int>(Errc::NoPmix) == WIREUP_ERR_NO_PMIX);
static_assert(static_cast<int>(Errc::NoSubnetManager) == WIREUP_ERR_NO_SUBNET_MANAGER);
static_assert(static_cast<int>(Errc::MemlockLimit) == WIREUP_ERR_MEMLOCK_LIMIT);
static_assert(static_cast<int>(Errc::Timeout) == WIREUP_ERR_TIMEOUT);
static_assert(static_cast<int>(Errc::PathUnresolved) == WIREUP_ERR_PATH_UNRESOLVED);
static_assert(static_cast<int>(Errc::CardMissing) == WIREUP_ERR_CARD_MISSING);
static_assert(static_cast<int>(Errc::Internal) == WIREUP_ERR_INTERNAL);

}  // namespace

wireup_status_t to_status(const Error& error) noexcept {
  if (error.code().category() != error_category()) {
    return WIREUP_ERR_INTERNAL;
  }
  return static_cast<wireup_status_t>(error.code().value());
}

wireup_event_t to_event(const conn::UserEvent& event, std::string_view nspace) {
  wireup_event_t result{};
  copy_text(result.nspace, nspace);
  result.qp = event.qp;
  if (const auto* connected = std::get_if<conn::Connected>(&event.event)) {
    result.type = WIREUP_EVENT_CONNECTED;
    result.rank = connected->peer.rank;
    copy_with_reason(result.text, {}, event.card_path_reason);
  } else if (const auto* failed = std::get_if<conn::Failed>(&event.event)) {
    result.type = WIREUP_EVENT_FAILED;
    result.rank = failed->peer.rank;
    result.step = static_cast<wireup_step_t>(failed->step);
    result.status = to_status(failed->error);
    result.attempts = failed->attempts;
    copy_with_reason(result.text, failed->error.what(), event.card_path_reason);
  } else if (const auto* ended = std::get_if<conn::Disconnected>(&event.event)) {
    result.type = WIREUP_EVENT_DISCONNECTED;
    result.rank = ended->peer.rank;
    result.reason = static_cast<wireup_reason_t>(ended->reason);
  } else if (const auto* resolved = std::get_if<conn::Resolved>(&event.event)) {
    result.type = WIREUP_EVENT_RESOLVED;
    result.rank = rank_of(resolved->peer);
    result.path = resolved->id.value();
  } else if (const auto* unresolved = std::get_if<conn::Unresolved>(&event.event)) {
    result.type = WIREUP_EVENT_UNRESOLVED;
    result.rank = rank_of(unresolved->peer);
    result.path = unresolved->id.value();
    result.step = static_cast<wireup_step_t>(unresolved->step);
    result.status = to_status(unresolved->error);
    copy_text(result.text, unresolved->error.what());
  } else if (const auto* changed = std::get_if<conn::PathChanged>(&event.event)) {
    result.type = WIREUP_EVENT_PATH_CHANGED;
    result.rank = rank_of(changed->peer);
    result.path = changed->id.value();
    result.reason = static_cast<wireup_reason_t>(changed->reason);
  }
  return result;
}

wireup_path_t to_path(const conn::PathView& view) {
  const conn::Resolution& resolution = view.resolution;
  wireup_path_t path{};
  path.id = view.id.value();
  path.state = static_cast<wireup_path_state_t>(resolution.state);
  const auto* peer = std::get_if<PeerId>(&resolution.target);
  path.rank = peer != nullptr ? peer->rank : WIREUP_NO_RANK;
  // What a pending one was before is of no use.
  if (!resolution.path.has_value() || resolution.state == conn::Resolution::State::Pending) {
    return path;
  }
  const conn::KnownPath& known = *resolution.path;
  path.origin = static_cast<wireup_path_origin_t>(known.origin);
  path.generation = known.generation;
  path.age_ns = static_cast<std::uint64_t>(view.age.count());
  std::copy(view.to.dgid.bytes().begin(), view.to.dgid.bytes().end(), std::begin(path.dgid));
  path.flow_label = view.to.flow_label.value();
  path.dlid = view.to.dlid.value();
  path.sl = view.to.sl.value();
  path.src_path_bits = view.to.path_bits;
  path.static_rate = view.to.static_rate;
  path.is_global = view.to.has_grh ? 1 : 0;
  path.sgid_index = view.gid_index;
  path.hop_limit = view.to.hop_limit;
  path.traffic_class = view.to.traffic_class;
  path.port = view.port;
  path.pkey = resolution.wish.pkey.value();
  path.pkey_index = view.pkey_index;
  path.mtu_bytes = static_cast<std::uint16_t>(mad::mtu_bytes(view.mtu).value_or(0));
  mad::serialize(known.record, path.record);
  return path;
}

wireup_peer_info_t to_info(const conn::Connection& connection) {
  const mad::PathRecord& record = connection.path->record;
  const conn::QpAttributes& attributes = connection.attributes;
  const conn::Timeline& timeline = connection.timeline;
  wireup_peer_info_t info{};
  info.path_origin = static_cast<wireup_path_origin_t>(connection.path->origin);
  std::copy(record.sgid.bytes().begin(), record.sgid.bytes().end(), std::begin(info.sgid));
  std::copy(record.dgid.bytes().begin(), record.dgid.bytes().end(), std::begin(info.dgid));
  info.slid = record.slid.value();
  info.dlid = record.dlid.value();
  info.pkey = record.pkey.value();
  info.mtu_bytes = static_cast<std::uint16_t>(mad::mtu_bytes(attributes.mtu).value_or(0));
  info.rate = attributes.static_rate;
  info.sl = attributes.sl.value();
  info.passive = connection.role == conn::Role::Passive ? 1 : 0;
  info.hop_limit = attributes.hop_limit;
  info.local_qpn = connection.qpn->value();
  info.peer_qpn = attributes.peer_qpn.value();
  info.epoch = connection.epoch;
  info.retransmits = connection.retransmits;
  info.connect_time_ns = nanoseconds_between(timeline.started, timeline.ready);
  info.card_time_ns = nanoseconds_between(timeline.started, timeline.card);
  info.path_time_ns = nanoseconds_between(timeline.card, timeline.path);
  info.handshake_time_ns = nanoseconds_between(timeline.path, timeline.ready);
  return info;
}

wireup_stats_t to_stats(const conn::Stats& stats) {
  wireup_stats_t result{};
  result.cm_sent = sum(stats.cm.sent);
  result.cm_received = sum(stats.cm.received);
  result.cm_retransmitted = sum(stats.cm.retransmitted);
  result.cm_dropped =
      std::accumulate(stats.cm.dropped.begin(), stats.cm.dropped.end(), std::uint64_t{0});
  result.connected = stats.conn.connected;
  result.failed = stats.conn.failed;
  result.disconnected = stats.conn.disconnected;
  result.crossed = stats.conn.crossed;
  result.rejected = stats.conn.refused;
  result.paths_cached = stats.driver.paths_cached;
  result.paths_requested = stats.driver.paths_requested;
  result.cards_requested = stats.driver.cards_requested;
  result.queue_pairs = static_cast<std::uint32_t>(stats.queue_pairs);
  result.peers = static_cast<std::uint32_t>(stats.ready);
  return result;
}

}  // namespace wireup::api
