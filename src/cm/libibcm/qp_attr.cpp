// SPDX-License-Identifier: BSD-3-Clause
//
// The rules are those of cm_init_qp_attr() in Linux' drivers/infiniband/core/cm.c, which old
// programs were written against.
#include "cm/libibcm/qp_attr.hpp"

#include "cm/engine/ack_timeout.hpp"
#include "verbs/rc_qp.hpp"

namespace wireup::cm::ibcm {
namespace {

bool is_connected_type(ibv_qp_type type) noexcept {
  return type != IBV_QPT_UC;
}

/// Whether the peer's REQ or REP is known, and the connection not over.
bool knows_peer(State state) noexcept {
  switch (state) {
    case State::ReqRcvd:
    case State::MraReqSent:
    case State::RepRcvd:
    case State::MraRepSent:
    case State::RepSent:
    case State::MraRepRcvd:
    case State::Established:
      return true;
    default:
      return false;
  }
}

ibv_ah_attr address_vector(const LocalPath& path) noexcept {
  verbs::UdDestination to;
  to.dlid = path.record.dlid;
  to.sl = path.record.sl;
  to.static_rate = path.record.rate;
  to.path_bits = path.path_bits;
  // Whoever may not leave the subnet needs no GRH.
  to.global = path.record.hop_limit > 1;
  to.dgid = path.record.dgid;
  to.sgid_index = path.sgid_index;
  to.flow_label = path.record.flow_label;
  to.hop_limit = path.record.hop_limit;
  to.traffic_class = path.record.traffic_class;
  return verbs::ah_attributes(to, path.port);
}

void set_alternate(QpAttributes& to, const LocalPath& path) noexcept {
  to.mask |= IBV_QP_ALT_PATH;
  to.attr.alt_ah_attr = address_vector(path);
  to.attr.alt_pkey_index = path.pkey_index;
  to.attr.alt_port_num = path.port;
  to.attr.alt_timeout = path.ack_timeout.exponent();
}

void set_init(QpAttributes& to, const QpFacts& facts) noexcept {
  to.mask |= IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  to.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (facts.responder_resources > 0) {
    to.attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  }
  to.attr.pkey_index = facts.primary.pkey_index;
  to.attr.port_num = facts.primary.port;
}

void set_rtr(QpAttributes& to, const QpFacts& facts) noexcept {
  to.mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  to.attr.ah_attr = address_vector(facts.primary);
  to.attr.path_mtu = static_cast<ibv_mtu>(facts.path_mtu);
  to.attr.dest_qp_num = facts.remote_qpn.value();
  to.attr.rq_psn = facts.rq_psn.value();
  if (is_connected_type(facts.qp_type) && facts.qp_type != IBV_QPT_XRC_SEND) {
    to.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    to.attr.max_dest_rd_atomic = facts.responder_resources;
    to.attr.min_rnr_timer = 0;
  }
  if (facts.alternate.has_value()) {
    set_alternate(to, *facts.alternate);
  }
}

void set_rts(QpAttributes& to, const QpFacts& facts) noexcept {
  to.mask |= IBV_QP_SQ_PSN;
  to.attr.sq_psn = facts.sq_psn.value();
  if (is_connected_type(facts.qp_type)) {
    to.mask |= IBV_QP_TIMEOUT;
    to.attr.timeout = facts.primary.ack_timeout.exponent();
    if (facts.qp_type != IBV_QPT_XRC_RECV) {
      to.mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
      to.attr.retry_cnt = facts.retry_count;
      to.attr.rnr_retry = facts.rnr_retry_count;
      to.attr.max_rd_atomic = facts.initiator_depth;
    }
  }
  if (facts.alternate.has_value()) {
    to.mask |= IBV_QP_PATH_MIG_STATE;
    to.attr.path_mig_state = IBV_MIG_REARM;
  }
}

Error not_in(State state, ibv_qp_state target) noexcept {
  return Error::make(Errc::InvalidState, "attributes for QP state %d: not known in %s",
                     static_cast<int>(target), state_name(state).data());
}

}  // namespace

Result<QpAttributes> qp_attributes(const QpFacts& facts, State state, bool rearms,
                                   ibv_qp_state target) {
  QpAttributes to{};
  to.mask = IBV_QP_STATE;
  to.attr.qp_state = target;
  const bool has_asked = state == State::ReqSent || state == State::MraReqRcvd;
  if (!knows_peer(state) && !(has_asked && target == IBV_QPS_INIT)) {
    return fail(not_in(state, target));
  }
  switch (target) {
    case IBV_QPS_INIT:
      set_init(to, facts);
      return to;
    case IBV_QPS_RTR:
      set_rtr(to, facts);
      return to;
    case IBV_QPS_RTS:
      if (!rearms) {
        set_rts(to, facts);
        return to;
      }
      if (!facts.alternate.has_value()) {
        return fail(Error::make(Errc::InvalidState, "no alternate path has been loaded"));
      }
      set_alternate(to, *facts.alternate);
      to.mask |= IBV_QP_PATH_MIG_STATE;
      to.attr.path_mig_state = IBV_MIG_REARM;
      return to;
    default:
      return fail(Error::make(Errc::InvalidState,
                              "QP state %d is not INIT, RTR or RTS: there are no attributes for it",
                              static_cast<int>(target)));
  }
}

void take_peers_rep(QpFacts& facts, const mad::Rep& rep) noexcept {
  facts.remote_qpn =
      facts.qp_type == IBV_QPT_XRC_SEND ? Qpn(rep.local_eecn.value()) : rep.local_qpn;
  facts.sq_psn = rep.starting_psn;
  facts.initiator_depth = rep.responder_resources;
  facts.responder_resources = rep.initiator_depth;
  facts.rnr_retry_count = rep.rnr_retry_count.value();
  // A path's packet lifetime and the ACK delay of whoever answers on it.
  facts.primary.ack_timeout = ack_timeout(rep.target_ack_delay, facts.primary.record.lifetime());
  if (facts.alternate.has_value()) {
    facts.alternate->ack_timeout =
        ack_timeout(rep.target_ack_delay, facts.alternate->record.lifetime());
  }
}

}  // namespace wireup::cm::ibcm
