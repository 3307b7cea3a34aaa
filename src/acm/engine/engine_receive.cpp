// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <variant>

#include "acm/engine/engine.hpp"

namespace wireup::acm {
namespace {

constexpr std::uint16_t kFirstMulticastLid = 0xC000;

bool can_be_a_port(const Source& from) noexcept {
  return !from.slid.is_zero() && from.slid.value() < kFirstMulticastLid && !from.sgid.is_zero() &&
         !from.sgid.is_multicast() && !from.qpn.is_zero();
}

/// Can a datagram of this source speak for the address? GIDs and LIDs are in the datagram itself;
/// for names and IP addresses there is nothing to compare with.
bool may_claim(const Source& from, const mad::AcmAddress& address) noexcept {
  if (const auto gid = address.as_gid()) {
    return *gid == from.sgid;
  }
  if (const auto lid = address.as_lid()) {
    return *lid == from.slid;
  }
  return true;
}

}  // namespace

void Engine::handle_mad(const Source& from, std::span<const std::uint8_t> bytes, Instant now) {
  if (!from.has_grh) {
    drop(Drop::NoGrh);
    return;
  }
  if (!can_be_a_port(from)) {
    drop(Drop::BadSource);
    return;
  }
  if (from.sgid == port_.gid && from.qpn == port_.qpn) {
    drop(Drop::Own);
    return;
  }
  const auto message = mad::parse_acm(bytes);
  if (!message) {
    drop(Drop::Malformed);
    return;
  }
  if (const auto* request = std::get_if<mad::AcmRequest>(&*message)) {
    ++counters_.requests_received;
    handle_request(from, *request, now);
  } else {
    ++counters_.responses_received;
    handle_response(from, std::get<mad::AcmResponse>(*message), now);
  }
}

void Engine::handle_request(const Source& from, const mad::AcmRequest& request, Instant now) {
  if (is_local(request.source)) {
    drop(Drop::OwnAddress);
    return;
  }
  if (!may_claim(from, request.source)) {
    drop(Drop::SourceMismatch);
    return;
  }
  // Before all groups are settled the common one might be a lesser one than it will be.
  if (!groups_.is_ready()) {
    drop(Drop::NotReady);
    return;
  }
  const mad::McMemberRecord* group = groups_.last_common(request.groups.span());
  if (group == nullptr) {
    drop(Drop::NoCommonGroup);
    return;
  }
  learn(request.source, from, *group, now);
  if (is_local(request.destination)) {
    answer(from, request, *group);
  }
  start_queued(now);
}

void Engine::handle_response(const Source& from, const mad::AcmResponse& response, Instant now) {
  const auto waiting = by_tid_.find(response.tid);
  if (waiting == by_tid_.end()) {
    drop(Drop::UnknownTid);
    return;
  }
  const mad::AcmAddress address = waiting->second;
  if (!may_claim(from, address)) {
    drop(Drop::ReplierMismatch);
    return;
  }
  if (!response.group.has_value()) {
    fail_entry(entries_.find(address), UnresolvedReason::Refused, now);
    start_queued(now);
    return;
  }
  const mad::McMemberRecord* group = groups_.last_common({&*response.group, 1});
  if (group == nullptr) {
    drop(Drop::NoCommonGroup);
    return;
  }
  learn(address, from, *group, now);
  start_queued(now);
}

void Engine::answer(const Source& from, const mad::AcmRequest& request,
                    const mad::McMemberRecord& group) {
  if (transmits_.size() >= config_.max_transmits) {
    drop(Drop::QueueFull);
    return;
  }
  Transmit transmit;
  transmit.kind = TransmitKind::Response;
  transmit.to.dlid = from.slid;
  transmit.to.qpn = from.qpn;
  transmit.to.sl = group.sl;
  transmit.to.static_rate = group.rate == port_.rate ? std::uint8_t{0} : group.rate;
  transmit.to.path_bits = from.path_bits;
  transmit.to.dgid = from.sgid;
  transmit.to.flow_label = group.flow_label;
  transmit.to.hop_limit = group.hop_limit;
  transmit.to.traffic_class = group.traffic_class;
  mad::serialize(mad::AcmResponse{request.tid, 0, group.mgid}, transmit.bytes);
  transmits_.push_back(transmit);
  ++counters_.responses_sent;
}

void Engine::learn(const mad::AcmAddress& address, const Source& from,
                   const mad::McMemberRecord& group, Instant now) {
  const mad::PathRecord record = synthesise(from, group);
  auto at = entries_.find(address);
  bool wanted = false;
  bool is_news = true;
  if (at == entries_.end()) {
    if (!make_room()) {
      return;
    }
    at = entries_.emplace(address, Entry{}).first;
  } else {
    Entry& entry = at->second;
    wanted = entry.state == State::Queued || entry.state == State::Asked;
    if (entry.state == State::Ready) {
      counters_.restarts += entry.qpn != from.qpn ? 1 : 0;
      is_news = entry.record != record;
    }
    release(entry);
    unschedule(address, entry);
  }
  Entry& entry = at->second;
  entry.state = State::Ready;
  entry.attempts = 0;
  entry.qpn = from.qpn;
  entry.record = record;
  schedule(address, entry, now + config_.address_life);
  if (is_news) {
    counters_.snooped += wanted ? 0 : 1;
    events_.push_back(PathLearned{address, record, wanted});
  }
}

mad::PathRecord Engine::synthesise(const Source& from, const mad::McMemberRecord& group) const {
  mad::PathRecord record;
  record.dgid = from.sgid;
  record.sgid = port_.gid;
  record.dlid = from.slid;
  record.slid = Lid(static_cast<std::uint16_t>(port_.lid.value() | from.path_bits));
  record.flow_label = group.flow_label;
  record.hop_limit = group.hop_limit;
  record.traffic_class = group.traffic_class;
  record.reversible = true;
  record.numb_path = 1;
  record.pkey = port_.pkey;
  record.sl = group.sl;
  record.mtu_selector = mad::Selector::Exactly;
  record.mtu = group.mtu;
  record.rate_selector = mad::Selector::Exactly;
  record.rate = group.rate;
  record.packet_lifetime_selector = mad::Selector::Exactly;
  record.packet_lifetime = group.packet_lifetime;
  return record;
}

bool Engine::is_local(const mad::AcmAddress& address) const noexcept {
  return address == mad::AcmAddress::gid(port_.gid) ||
         std::find(locals_.begin(), locals_.end(), address) != locals_.end();
}

}  // namespace wireup::acm
