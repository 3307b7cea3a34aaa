// SPDX-License-Identifier: BSD-3-Clause
//
// What engines tell, as libibcm's events.
#include <endian.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "cm/libibcm/device.hpp"
#include "cm/libibcm/paths.hpp"

namespace wireup::cm::ibcm {
namespace {

template <typename Bytes>
void set_private(EventBox& box, const Bytes& bytes) noexcept {
  static_assert(std::tuple_size_v<Bytes> <= EventBox::kRoom);
  std::copy(bytes.begin(), bytes.end(), box.private_bytes.begin());
  box.private_size = bytes.size();
  box.private_data = box.private_bytes.data();
}

std::uint8_t set_info(EventBox& box, std::span<const std::uint8_t> info) noexcept {
  std::copy(info.begin(), info.end(), box.info_bytes.begin());
  return static_cast<std::uint8_t>(info.size());
}

/// A peer may say more than the enumeration has names for.
template <typename Enum>
void set_number(Enum& to, std::uint32_t number) noexcept {
  static_assert(sizeof(to) == sizeof(number));
  std::memcpy(&to, &number, sizeof(number));
}

template <typename Map, typename Key>
CmId* find(const Map& map, Key key) noexcept {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : found->second;
}

ibv_qp_type type_of(const mad::Req& req) noexcept {
  switch (req.transport_service) {
    case mad::TransportService::Uc:
      return IBV_QPT_UC;
    case mad::TransportService::Extended:
      return IBV_QPT_XRC_RECV;
    default:
      return IBV_QPT_RC;
  }
}

/// A peer's path with what this port makes of it. What its tables do not have is not the peer's to
/// be refused for: the QP's first packets will tell.
LocalPath local_of(const Side& side, const mad::PathRecord& record, IbTimeout ack_timeout) {
  LocalPath local;
  local.record = record;
  local.port = side.port->number();
  local.pkey_index = side.port->pkey_index(record.pkey).value_or(0);
  local.sgid_index = side.port->gid_index(record.sgid).value_or(0);
  local.path_bits = side.port->path_bits(record.slid).value_or(0);
  local.ack_timeout = ack_timeout;
  return local;
}

QpFacts facts_of(const Side& side, const mad::Req& req, const Address& from) {
  QpFacts facts;
  mad::PathRecord primary = path_from_peer(req.primary, req.pkey, req.path_mtu.value());
  if (!is_unicast(primary.dlid)) {
    // From another subnet, whose LIDs mean nothing here: the router that it came through.
    primary.dlid = from.dlid;
    primary.sl = from.sl;
  }
  facts.qp_type = type_of(req);
  facts.primary = local_of(side, primary, req.primary.local_ack_timeout);
  if (req.alternate.has_value()) {
    facts.alternate = local_of(side, path_from_peer(*req.alternate, req.pkey, req.path_mtu.value()),
                               req.alternate->local_ack_timeout);
  }
  facts.path_mtu = req.path_mtu.value();
  facts.remote_qpn = req.local_qpn;
  facts.sq_psn = req.starting_psn;
  facts.responder_resources = req.initiator_depth;
  facts.initiator_depth = req.responder_resources;
  facts.retry_count = req.retry_count.value();
  facts.rnr_retry_count = req.rnr_retry_count.value();
  return facts;
}

}  // namespace

void Device::on(Side& side, const ReqReceived& event) {
  CmId* const caller = find(side.connections, event.handle);
  CmId* const listener = caller != nullptr ? caller : listener_of(event.req.service_id);
  if (listener == nullptr) {
    // Its listener has just been destroyed.
    if (!side.engine.reject(event.handle, mad::RejReason::InvalidServiceId, {}, {},
                            monotonic_now())) {
      side.engine.abandon(event.handle, monotonic_now());
    }
    return;
  }
  const mad::Req& req = event.req;
  CmId& id = caller != nullptr ? *caller : add_id(listener->context);
  id.service_id = req.service_id;
  id.service_mask = Listeners::kWholeId;
  id.facts = facts_of(side, req, event.from);
  bind(id, side, event.handle);

  auto box = std::make_unique<EventBox>(IB_CM_REQ_RECEIVED, id, *listener);
  ib_cm_req_event_param& to = box->param.req_rcvd;
  to.listen_id = listener;
  to.port = side.port->number();
  box->primary_path = write_path(id.facts.primary.record);
  to.primary_path = &box->primary_path;
  if (id.facts.alternate.has_value()) {
    box->alternate_path = write_path(id.facts.alternate->record);
    to.alternate_path = &box->alternate_path;
  }
  to.remote_ca_guid = htobe64(req.local_ca_guid.value());
  to.remote_qkey = req.local_qkey.value();
  to.remote_qpn = req.local_qpn.value();
  to.qp_type = id.facts.qp_type;
  to.starting_psn = req.starting_psn.value();
  to.responder_resources = req.initiator_depth;
  to.initiator_depth = req.responder_resources;
  to.local_cm_response_timeout = req.remote_cm_response_timeout.exponent() & 0x1FU;
  to.flow_control = req.end_to_end_flow_control ? 1U : 0U;
  to.remote_cm_response_timeout = req.local_cm_response_timeout.exponent() & 0x1FU;
  to.retry_count = req.retry_count.value() & 7U;
  to.rnr_retry_count = req.rnr_retry_count.value() & 7U;
  to.srq = req.srq ? 1U : 0U;
  set_private(*box, req.private_data);
  push(std::move(box));
}

void Device::on(Side& side, const RepReceived& event) {
  CmId* const id = find(side.connections, event.handle);
  if (id == nullptr) {
    return;
  }
  remember_ids(*id);
  const mad::Rep& rep = event.rep;
  take_peers_rep(id->facts, rep);
  auto box = std::make_unique<EventBox>(IB_CM_REP_RECEIVED, *id, *id);
  ib_cm_rep_event_param& to = box->param.rep_rcvd;
  to.remote_ca_guid = htobe64(rep.local_ca_guid.value());
  to.remote_qkey = rep.local_qkey.value();
  to.remote_qpn = id->facts.remote_qpn.value();
  to.starting_psn = rep.starting_psn.value();
  to.responder_resources = rep.initiator_depth;
  to.initiator_depth = rep.responder_resources;
  to.target_ack_delay = rep.target_ack_delay.exponent() & 0x1FU;
  to.failover_accepted = static_cast<unsigned>(rep.failover) & 3U;
  to.flow_control = rep.end_to_end_flow_control ? 1U : 0U;
  to.rnr_retry_count = rep.rnr_retry_count.value() & 7U;
  to.srq = rep.srq ? 1U : 0U;
  set_private(*box, rep.private_data);
  push(std::move(box));
}

void Device::on(Side& side, const Established& event) {
  CmId* const id = find(side.connections, event.handle);
  // A DREQ that overtook the RTU establishes and ends at once; programs are told of the DREQ.
  if (id == nullptr || side.engine.state(event.handle) != State::Established) {
    return;
  }
  if (std::exchange(id->is_notified, false)) {
    push(std::make_unique<EventBox>(IB_CM_USER_ESTABLISHED, *id, *id));
    return;
  }
  auto box = std::make_unique<EventBox>(IB_CM_RTU_RECEIVED, *id, *id);
  set_private(*box, event.private_data);
  push(std::move(box));
}

void Device::on(Side& side, const Rejected& event) {
  CmId* const id = find(side.connections, event.handle);
  if (id == nullptr) {
    return;
  }
  auto box = std::make_unique<EventBox>(IB_CM_REJ_RECEIVED, *id, *id);
  ib_cm_rej_event_param& to = box->param.rej_rcvd;
  set_number(to.reason, event.reason);
  to.ari_length = set_info(*box, event.ari.span());
  to.ari = box->info_bytes.data();
  set_private(*box, event.private_data);
  push(std::move(box));
  if (!side.engine.state(event.handle).has_value()) {
    unbind(*id);
  }
}

void Device::push_error(ib_cm_event_type type, CmId& id) {
  auto box = std::make_unique<EventBox>(type, id, id);
  box->param.send_status = IBV_WC_RESP_TIMEOUT_ERR;
  push(std::move(box));
}

void Device::on(Side& side, const Failed& event) {
  if (CmId* const id = find(side.connections, event.handle)) {
    const bool is_active = event.step == Step::Reply || event.step == Step::Establish;
    push_error(is_active ? IB_CM_REQ_ERROR : IB_CM_REP_ERROR, *id);
    unbind(*id);
  }
}

void Device::on(Side& side, const Disconnected& event) {
  CmId* const id = find(side.connections, event.handle);
  if (id == nullptr) {
    // Destroyed while its DREQ was under way, which crossed the peer's.
    if (event.awaits_release && !side.engine.release(event.handle, {}, monotonic_now())) {
      side.engine.abandon(event.handle, monotonic_now());
    }
    return;
  }
  ib_cm_event_type type = IB_CM_DREP_RECEIVED;
  switch (event.cause) {
    case DisconnectCause::Timeout:
      push_error(IB_CM_DREQ_ERROR, *id);
      return;
    case DisconnectCause::ByPeer:
      type = IB_CM_DREQ_RECEIVED;
      break;
    case DisconnectCause::Rejected:
      type = IB_CM_REJ_RECEIVED;
      break;
    case DisconnectCause::ByUs:
    case DisconnectCause::Stale:
      // A peer that has lost the connection knows nothing of it, and answers the DREQ so.
      break;
  }
  auto box = std::make_unique<EventBox>(type, *id, *id);
  if (type == IB_CM_REJ_RECEIVED) {
    set_number(box->param.rej_rcvd.reason, event.reason);
    box->param.rej_rcvd.ari = box->info_bytes.data();
  }
  set_private(*box, event.private_data);
  push(std::move(box));
}

void Device::on(Side& side, const TimewaitExit& event) {
  if (CmId* const id = find(side.connections, event.handle)) {
    push(std::make_unique<EventBox>(IB_CM_TIMEWAIT_EXIT, *id, *id));
    unbind(*id);
  }
}

void Device::on(Side& side, const MraReceived& event) {
  if (CmId* const id = find(side.connections, event.handle)) {
    auto box = std::make_unique<EventBox>(IB_CM_MRA_RECEIVED, *id, *id);
    box->param.mra_rcvd.service_timeout = event.service_timeout.exponent();
    set_private(*box, event.private_data);
    push(std::move(box));
  }
}

void Device::on(Side& side, const AlternateOffered& event) {
  CmId* const id = find(side.connections, event.handle);
  if (id == nullptr) {
    return;
  }
  const mad::PathRecord record =
      path_from_peer(event.lap.alternate, id->facts.primary.record.pkey, id->facts.path_mtu);
  id->replaced = id->facts.alternate;
  id->facts.alternate = local_of(side, record, event.lap.alternate.local_ack_timeout);
  id->rearms = true;
  auto box = std::make_unique<EventBox>(IB_CM_LAP_RECEIVED, *id, *id);
  box->alternate_path = write_path(record);
  box->param.lap_rcvd.alternate_path = &box->alternate_path;
  set_private(*box, event.lap.private_data);
  push(std::move(box));
}

void Device::on(Side& side, const AlternateAnswered& event) {
  CmId* const id = find(side.connections, event.handle);
  if (id == nullptr) {
    return;
  }
  if (event.apr.status == static_cast<std::uint8_t>(mad::AprStatus::Loaded)) {
    id->facts.alternate = id->proposed;
  }
  id->proposed.reset();
  auto box = std::make_unique<EventBox>(IB_CM_APR_RECEIVED, *id, *id);
  ib_cm_apr_event_param& to = box->param.apr_rcvd;
  set_number(to.ap_status, event.apr.status);
  to.info_len = set_info(*box, event.apr.info.span());
  to.apr_info = box->info_bytes.data();
  set_private(*box, event.apr.private_data);
  push(std::move(box));
}

void Device::on(Side& side, const AlternateFailed& event) {
  if (CmId* const id = find(side.connections, event.handle)) {
    id->proposed.reset();
    push_error(IB_CM_LAP_ERROR, *id);
  }
}

void Device::on(Side& side, const SidrReqReceived& event) {
  CmId* const listener = listener_of(event.req.service_id);
  if (listener == nullptr) {
    SidrAnswer refusal;
    refusal.status = mad::SidrStatus::UnsupportedService;
    if (!side.engine.answer_service(event.id, refusal, monotonic_now())) {
      side.engine.abandon(event.id);
    }
    return;
  }
  CmId& id = add_id(listener->context);
  id.service_id = event.req.service_id;
  id.service_mask = Listeners::kWholeId;
  id.remote_id = event.req.request_id;
  id.side = &side;
  id.resolution = event.id;
  side.resolutions.insert_or_assign(event.id, &id);
  auto box = std::make_unique<EventBox>(IB_CM_SIDR_REQ_RECEIVED, id, *listener);
  ib_cm_sidr_req_event_param& to = box->param.sidr_req_rcvd;
  to.listen_id = listener;
  to.port = side.port->number();
  to.pkey = event.req.pkey.value();
  set_private(*box, event.req.private_data);
  push(std::move(box));
}

void Device::on(Side& side, const SidrRepReceived& event) {
  CmId* const id = find(side.resolutions, event.id);
  if (id == nullptr) {
    return;
  }
  auto box = std::make_unique<EventBox>(IB_CM_SIDR_REP_RECEIVED, *id, *id);
  ib_cm_sidr_rep_event_param& to = box->param.sidr_rep_rcvd;
  set_number(to.status, event.rep.status);
  to.qkey = event.rep.qkey.value();
  to.qpn = event.rep.qpn.value();
  to.info_len = set_info(*box, event.rep.info.span());
  to.info = box->info_bytes.data();
  set_private(*box, event.rep.private_data);
  push(std::move(box));
  unbind(*id);
}

void Device::on(Side& side, const SidrFailed& event) {
  if (CmId* const id = find(side.resolutions, event.id)) {
    push_error(IB_CM_SIDR_REQ_ERROR, *id);
    unbind(*id);
  }
}

}  // namespace wireup::cm::ibcm
