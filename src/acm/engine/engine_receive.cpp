// SPDX-License-Identifier: BSD-3-Clause
//
// The hearing side: what is dropped, what is answered, what is learned.
#include <variant>

#include "acm/engine/engine.hpp"

namespace wireup::acm {
namespace {

bool can_be_a_port(const Source& from) noexcept {
  return is_unicast(from.slid) && !from.sgid.is_zero() && !from.sgid.is_multicast() &&
         !from.qpn.is_zero();
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

/// Only the bits of the LID mask count.
std::uint8_t used_path_bits(const PortIdentity& port, std::uint8_t bits) noexcept {
  return static_cast<std::uint8_t>(bits & ((1U << port.lmc) - 1U));
}

/// From which of the port's LIDs an answer goes out: the one that was asked for, else the one that
/// the question was sent to.
std::uint8_t path_bits_of(const PortIdentity& port, const Source& from,
                          const mad::AcmAddress& destination) noexcept {
  if (const auto lid = destination.as_lid()) {
    return used_path_bits(port, static_cast<std::uint8_t>(lid->value() & 0xFFU));
  }
  return used_path_bits(port, from.path_bits);
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
  learn_port(request.source, from, request.groups.span(), now);
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
  const Target target = waiting->second;
  if (!may_claim(from, target.address)) {
    drop(Drop::ReplierMismatch);
    return;
  }
  if (!response.group.has_value()) {
    fail_entry(target, UnresolvedReason::Refused, now);
    start_queued(now);
    return;
  }
  const mad::McMemberRecord* group = groups_.last_common({&*response.group, 1});
  if (group == nullptr) {
    drop(Drop::NoCommonGroup);
    return;
  }
  learn_port(target.address, from, {&*response.group, 1}, now);
  if (group->traffic_class != target.traffic_class && by_tid_.contains(response.tid)) {
    fail_entry(target, UnresolvedReason::OtherClass, now);
  }
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
  transmit.to = along(group);
  transmit.to.dlid = from.slid;
  transmit.to.qpn = from.qpn;
  transmit.to.path_bits = path_bits_of(port_, from, request.destination);
  transmit.to.dgid = from.sgid;
  mad::serialize(mad::AcmResponse{request.tid, 0, group.mgid}, transmit.bytes);
  transmits_.push_back(transmit);
  ++counters_.responses_sent;
}

/// What is known of the port from now on, for every traffic class that both ends have a group of:
/// under the address that it claims, under its GID, and under its LID where that is known or waited
/// for already.
void Engine::learn_port(const mad::AcmAddress& claimed, const Source& from,
                        std::span<const Gid> groups, Instant now) {
  const mad::AcmAddress gid = mad::AcmAddress::gid(from.sgid);
  const mad::AcmAddress lid = mad::AcmAddress::lid(from.slid);
  const bool is_own_port = from.sgid == port_.gid;
  for (const std::uint8_t traffic_class : groups_.traffic_classes()) {
    const mad::McMemberRecord* group = groups_.last_common(groups, traffic_class);
    if (group == nullptr) {
      continue;
    }
    const mad::PathRecord record = is_own_port ? local_path(port_) : synthesise(from, *group);
    if (claimed != gid && claimed != lid) {
      learn({claimed, traffic_class}, from, record, now);
    }
    // Nobody but the port itself is told of its own GID and LIDs.
    if (is_own_port) {
      continue;
    }
    learn({gid, traffic_class}, from, record, now);
    if (claimed == lid || entries_.find({lid, traffic_class}) != nullptr) {
      learn({lid, traffic_class}, from, record, now);
    }
  }
}

void Engine::learn(const Target& target, const Source& from, const mad::PathRecord& record,
                   Instant now) {
  Entry* entry = entries_.find(target);
  if (entry == nullptr) {
    const bool is_alias = target.address != mad::AcmAddress::gid(from.sgid);
    if (is_alias && entries_.aliases(from.sgid) >= config_.max_addresses_per_port) {
      drop(Drop::TooManyAddresses);
      return;
    }
    if (!make_room()) {
      return;
    }
    entry = &entries_.insert(target);
    // Nobody waits for it.
    entry->state = EntryState::Known;
  }
  if (entry->peer.has_value() && !entry->peer->qpn.is_zero()) {
    counters_.restarts += entry->peer->qpn != from.qpn ? 1 : 0;
  }
  entry->address_expiry = after(now, config_.address_life);
  const Peer peer{from.sgid, from.slid, from.qpn};
  const bool is_own_port = from.sgid == port_.gid;
  if (!is_own_port) {
    entry->heard = record;
  }
  // What the SA said stays while the port is where it was.
  const bool is_confirmed = entry->state == EntryState::Ready &&
                            entry->origin == PathOrigin::SaQuery && entry->peer.has_value() &&
                            entry->peer->gid == peer.gid && entry->peer->lid == peer.lid;
  if ((protocol_ != RouteProtocol::Acm || is_confirmed) && !is_own_port) {
    learn_address(target, *entry, peer, now);
    return;
  }
  const bool wanted = entry->is_pending();
  const auto routed = entry->state == EntryState::Routing ? entry->peer : std::nullopt;
  release(*entry);
  entries_.set_peer(target, *entry, peer);
  entry->route_expiry = kNever;
  make_ready(target, *entry, record, is_own_port ? PathOrigin::Local : PathOrigin::AcmMulticast,
             wanted);
  if (routed.has_value()) {
    cancel_unwanted({routed->gid, target.traffic_class});
  }
}

/// A LID that nobody has asked for yet, but whose port is known: takes over what is known of it.
void Engine::copy_from_gid(const Target& target) {
  const auto lid = target.address.as_lid();
  if (!lid.has_value() || entries_.find(target) != nullptr) {
    return;
  }
  const auto gid = entries_.gid_of(*lid);
  const Entry* known =
      gid.has_value() ? entries_.find({mad::AcmAddress::gid(*gid), target.traffic_class}) : nullptr;
  if (known == nullptr || entries_.size() >= config_.max_entries) {
    return;
  }
  Entry& entry = entries_.insert(target);
  entry.state = known->state == EntryState::Ready ? EntryState::Ready : EntryState::Known;
  entry.record = known->record;
  entry.origin = known->origin;
  entry.heard = known->heard;
  entry.address_expiry = known->address_expiry;
  entry.route_expiry = known->route_expiry;
  entries_.set_peer(target, entry, known->peer);
  entries_.schedule(target, entry,
                    entry.state == EntryState::Ready ? known->due : known->address_expiry);
}

mad::PathRecord Engine::synthesise(const Source& from, const mad::McMemberRecord& group) const {
  mad::PathRecord record;
  record.dgid = from.sgid;
  record.sgid = port_.gid;
  record.dlid = from.slid;
  record.slid =
      Lid(static_cast<std::uint16_t>(port_.lid.value() | used_path_bits(port_, from.path_bits)));
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
  // A group that was made without a lifetime has 4 us, and no path lives that short.
  record.packet_lifetime =
      group.packet_lifetime == 0 ? usual_lifetime(port_.subnet_timeout) : group.packet_lifetime;
  return record;
}

}  // namespace wireup::acm
