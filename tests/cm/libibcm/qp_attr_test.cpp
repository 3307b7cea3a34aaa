// SPDX-License-Identifier: BSD-3-Clause
#include "cm/libibcm/qp_attr.hpp"

#include <gtest/gtest.h>

namespace wireup::cm::ibcm {
namespace {

/// Written by hand from what Linux' cm_init_qp_attr() does.
class QpAttr : public testing::Test {
 protected:
  QpAttr() {
    facts.primary.record.dlid = Lid(0x21);
    facts.primary.record.sl = Sl(3);
    facts.primary.record.rate = IBV_RATE_20_GBPS;
    facts.primary.record.packet_lifetime = 14;
    facts.primary.port = 2;
    facts.primary.pkey_index = 5;
    facts.primary.sgid_index = 1;
    facts.primary.path_bits = 1;
    facts.primary.ack_timeout = IbTimeout(16);
    facts.path_mtu = IBV_MTU_2048;
    facts.remote_qpn = Qpn(0xABC);
    facts.rq_psn = Psn(0x111);
    facts.sq_psn = Psn(0x222);
    facts.responder_resources = 4;
    facts.initiator_depth = 2;
    facts.retry_count = 6;
    facts.rnr_retry_count = 5;
  }
  void add_alternate() {
    facts.alternate = facts.primary;
    facts.alternate->record.dlid = Lid(0x31);
    facts.alternate->port = 1;
    facts.alternate->pkey_index = 7;
    facts.alternate->ack_timeout = IbTimeout(18);
  }
  [[nodiscard]] QpAttributes of(State state, ibv_qp_state target, bool rearms = false) const {
    const auto found = qp_attributes(facts, state, rearms, target);
    EXPECT_TRUE(found.has_value());
    return found.has_value() ? *found : QpAttributes{};
  }
  [[nodiscard]] bool is_refused(State state, ibv_qp_state target) const {
    const auto found = qp_attributes(facts, state, false, target);
    return !found.has_value() && found.error().is(Errc::InvalidState);
  }

  QpFacts facts;
};

TEST_F(QpAttr, InitGivesPortAndRights) {
  const QpAttributes init = of(State::ReqSent, IBV_QPS_INIT);
  EXPECT_EQ(init.mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
  EXPECT_EQ(init.attr.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(init.attr.port_num, 2);
  EXPECT_EQ(init.attr.pkey_index, 5);
  EXPECT_EQ(init.attr.qp_access_flags,
            static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_REMOTE_ATOMIC));
  facts.responder_resources = 0;
  EXPECT_EQ(of(State::ReqRcvd, IBV_QPS_INIT).attr.qp_access_flags,
            static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE));
}

TEST_F(QpAttr, RtrGivesThePeer) {
  const QpAttributes rtr = of(State::ReqRcvd, IBV_QPS_RTR);
  EXPECT_EQ(rtr.mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(rtr.attr.ah_attr.dlid, 0x21);
  EXPECT_EQ(rtr.attr.ah_attr.sl, 3);
  EXPECT_EQ(rtr.attr.ah_attr.src_path_bits, 1);
  EXPECT_EQ(rtr.attr.ah_attr.static_rate, IBV_RATE_20_GBPS);
  EXPECT_EQ(rtr.attr.ah_attr.port_num, 2);
  EXPECT_EQ(rtr.attr.ah_attr.is_global, 0);
  EXPECT_EQ(rtr.attr.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(rtr.attr.dest_qp_num, 0xABCU);
  EXPECT_EQ(rtr.attr.rq_psn, 0x111U);
  EXPECT_EQ(rtr.attr.max_dest_rd_atomic, 4);
  EXPECT_EQ(rtr.attr.min_rnr_timer, 0);
}

TEST_F(QpAttr, WhatLeavesTheSubnetHasAGrh) {
  facts.primary.record.hop_limit = 64;
  facts.primary.record.traffic_class = 9;
  facts.primary.record.flow_label = FlowLabel(0x12345);
  facts.primary.record.dgid = Gid::make(0xFEC0000000000002ULL, Guid(7));
  const ibv_ah_attr ah = of(State::Established, IBV_QPS_RTR).attr.ah_attr;
  EXPECT_EQ(ah.is_global, 1);
  EXPECT_EQ(ah.grh.sgid_index, 1);
  EXPECT_EQ(ah.grh.hop_limit, 64);
  EXPECT_EQ(ah.grh.traffic_class, 9);
  EXPECT_EQ(ah.grh.flow_label, 0x12345U);
  EXPECT_EQ(ah.grh.dgid.raw[15], 7);
}

TEST_F(QpAttr, RtsGivesWhatIsSent) {
  const QpAttributes rts = of(State::RepSent, IBV_QPS_RTS);
  EXPECT_EQ(rts.mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  EXPECT_EQ(rts.attr.sq_psn, 0x222U);
  EXPECT_EQ(rts.attr.timeout, 16);
  EXPECT_EQ(rts.attr.retry_cnt, 6);
  EXPECT_EQ(rts.attr.rnr_retry, 5);
  EXPECT_EQ(rts.attr.max_rd_atomic, 2);
}

TEST_F(QpAttr, UcAndXrcHaveLess) {
  facts.qp_type = IBV_QPT_UC;
  EXPECT_EQ(of(State::RepRcvd, IBV_QPS_RTR).mask,
            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
  EXPECT_EQ(of(State::RepRcvd, IBV_QPS_RTS).mask, IBV_QP_STATE | IBV_QP_SQ_PSN);
  facts.qp_type = IBV_QPT_XRC_RECV;
  EXPECT_EQ(of(State::ReqRcvd, IBV_QPS_RTS).mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT);
  EXPECT_NE(of(State::ReqRcvd, IBV_QPS_RTR).mask & IBV_QP_MIN_RNR_TIMER, 0);
  facts.qp_type = IBV_QPT_XRC_SEND;
  EXPECT_EQ(of(State::RepRcvd, IBV_QPS_RTR).mask & IBV_QP_MIN_RNR_TIMER, 0);
  EXPECT_NE(of(State::RepRcvd, IBV_QPS_RTS).mask & IBV_QP_RETRY_CNT, 0);
}

TEST_F(QpAttr, AnAlternatePathIsLoadedAndArmed) {
  add_alternate();
  const QpAttributes rtr = of(State::RepRcvd, IBV_QPS_RTR);
  EXPECT_NE(rtr.mask & IBV_QP_ALT_PATH, 0);
  EXPECT_EQ(rtr.attr.alt_ah_attr.dlid, 0x31);
  EXPECT_EQ(rtr.attr.alt_ah_attr.port_num, 1);
  EXPECT_EQ(rtr.attr.alt_port_num, 1);
  EXPECT_EQ(rtr.attr.alt_pkey_index, 7);
  EXPECT_EQ(rtr.attr.alt_timeout, 18);
  const QpAttributes rts = of(State::RepRcvd, IBV_QPS_RTS);
  EXPECT_NE(rts.mask & IBV_QP_PATH_MIG_STATE, 0);
  EXPECT_EQ(rts.attr.path_mig_state, IBV_MIG_REARM);
  EXPECT_EQ(rts.mask & IBV_QP_ALT_PATH, 0);
}

TEST_F(QpAttr, AfterALapThereIsTheAlternatePathAlone) {
  EXPECT_FALSE(qp_attributes(facts, State::Established, true, IBV_QPS_RTS).has_value());
  add_alternate();
  const QpAttributes again = of(State::Established, IBV_QPS_RTS, true);
  EXPECT_EQ(again.mask, IBV_QP_STATE | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
  EXPECT_EQ(again.attr.alt_ah_attr.dlid, 0x31);
  EXPECT_EQ(again.attr.path_mig_state, IBV_MIG_REARM);
}

TEST_F(QpAttr, StatesThatKnowNoPeer) {
  for (const State state : {State::ReqSent, State::MraReqRcvd}) {
    EXPECT_FALSE(is_refused(state, IBV_QPS_INIT));
    EXPECT_TRUE(is_refused(state, IBV_QPS_RTR));
    EXPECT_TRUE(is_refused(state, IBV_QPS_RTS));
  }
  for (const State state : {State::Idle, State::DreqSent, State::DreqRcvd, State::Timewait}) {
    EXPECT_TRUE(is_refused(state, IBV_QPS_INIT));
    EXPECT_TRUE(is_refused(state, IBV_QPS_RTS));
  }
  EXPECT_TRUE(is_refused(State::Established, IBV_QPS_SQD));
}

TEST_F(QpAttr, TheRepCrossesDepthsAndResources) {
  add_alternate();
  facts.alternate->record.packet_lifetime = 20;
  mad::Rep rep;
  rep.local_qpn = Qpn(0x77);
  rep.local_eecn = mad::Eecn(0x88);
  rep.starting_psn = Psn(0x99);
  rep.responder_resources = 8;
  rep.initiator_depth = 1;
  rep.rnr_retry_count = mad::RnrRetryCount(3);
  rep.target_ack_delay = IbTimeout(15);
  take_peers_rep(facts, rep);
  EXPECT_EQ(facts.remote_qpn, Qpn(0x77));
  EXPECT_EQ(facts.sq_psn, Psn(0x99));
  EXPECT_EQ(facts.rq_psn, Psn(0x111));
  EXPECT_EQ(facts.initiator_depth, 8);
  EXPECT_EQ(facts.responder_resources, 1);
  EXPECT_EQ(facts.rnr_retry_count, 3);
  EXPECT_EQ(facts.retry_count, 6);
  // Two lifetimes of 2^14 and a delay of 2^15 are 2^16; two of 2^20 swallow the delay.
  EXPECT_EQ(facts.primary.ack_timeout, IbTimeout(16));
  EXPECT_EQ(facts.alternate->ack_timeout, IbTimeout(21));
  facts.qp_type = IBV_QPT_XRC_SEND;
  take_peers_rep(facts, rep);
  EXPECT_EQ(facts.remote_qpn, Qpn(0x88));
}

}  // namespace
}  // namespace wireup::cm::ibcm
