// SPDX-License-Identifier: BSD-3-Clause
#include "rig.hpp"

namespace wireup::cm::ibcm {
namespace {

class AlternatePaths : public Hosts {
 protected:
  AlternatePaths() : second(path_between(1, 2, 1)) { second.packet_life_time = 10; }
  void expect_alternate(ib_cm_id* id, std::uint8_t peer, unsigned bits) {
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ib_cm_init_qp_attr(id, &attr, &mask), 0) << ib_cm_last_error();
    EXPECT_EQ(mask, IBV_QP_STATE | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
    EXPECT_EQ(attr.path_mig_state, IBV_MIG_REARM);
    EXPECT_EQ(attr.alt_ah_attr.dlid, Wire::lid_of(peer).value() + bits);
    EXPECT_EQ(attr.alt_ah_attr.src_path_bits, bits);
  }
  void load() {
    ASSERT_EQ(ib_cm_send_lap(ours, &second, text, 6), 0) << ib_cm_last_error();
    const OwnedEvent offered = next(b, IB_CM_LAP_RECEIVED);
    EXPECT_EQ(offered->cm_id, theirs);
    EXPECT_EQ(text_of(offered), "hello");
    const ibv_sa_path_rec* path = offered->param.lap_rcvd.alternate_path;
    ASSERT_NE(path, nullptr);
    EXPECT_EQ(be16toh(path->dlid), Wire::lid_of(1).value() + 1);
    EXPECT_EQ(be16toh(path->slid), Wire::lid_of(2).value() + 1);
    EXPECT_EQ(path->pkey, 0xFFFF);
  }

  ibv_sa_path_rec second;
};

TEST_F(AlternatePaths, ComeWithTheRequest) {
  ours = create(a);
  ib_cm_req_param param = req_param();
  param.alternate_path = &second;
  ASSERT_EQ(ib_cm_send_req(ours, &param), 0) << ib_cm_last_error();
  {
    const OwnedEvent asked = next(b, IB_CM_REQ_RECEIVED);
    theirs = asked->cm_id;
    ASSERT_NE(asked->param.req_rcvd.alternate_path, nullptr);
    EXPECT_EQ(be16toh(asked->param.req_rcvd.alternate_path->dlid), Wire::lid_of(1).value() + 1);
  }
  ib_cm_rep_param rep = rep_param();
  ASSERT_EQ(ib_cm_send_rep(theirs, &rep), 0);
  next(a, IB_CM_REP_RECEIVED);
  for (ib_cm_id* id : {ours, theirs}) {
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(ib_cm_init_qp_attr(id, &attr, &mask), 0);
    EXPECT_NE(mask & IBV_QP_ALT_PATH, 0);
    EXPECT_EQ(attr.alt_ah_attr.src_path_bits, 1);
    EXPECT_EQ(attr.alt_pkey_index, 3);
    EXPECT_EQ(attr.alt_timeout, 11);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ib_cm_init_qp_attr(id, &attr, &mask), 0);
    EXPECT_NE(mask & IBV_QP_PATH_MIG_STATE, 0);
    EXPECT_NE(mask & IBV_QP_SQ_PSN, 0);
  }
  ASSERT_EQ(ib_cm_send_rtu(ours, nullptr, 0), 0);
  next(b, IB_CM_RTU_RECEIVED);
  // It migrates: what was the first path is the spare one.
  ASSERT_EQ(ib_cm_notify(ours, IBV_EVENT_PATH_MIG), 0) << ib_cm_last_error();
  ASSERT_EQ(ib_cm_notify(theirs, IBV_EVENT_PATH_MIG), 0) << ib_cm_last_error();
  expect_alternate(ours, 2, 0);
  expect_alternate(theirs, 1, 0);
  // And their messages go the new way.
  ASSERT_EQ(ib_cm_send_dreq(ours, nullptr, 0), 0);
  next(b, IB_CM_DREQ_RECEIVED);
  ASSERT_EQ(ib_cm_send_drep(theirs, nullptr, 0), 0);
  next(a, IB_CM_DREP_RECEIVED);
  destroy_both();
}

TEST_F(AlternatePaths, AreLoadedLater) {
  establish();
  EXPECT_EQ(fails_with(ib_cm_notify(ours, IBV_EVENT_PATH_MIG)), EINVAL) << "there is none";
  load();
  // The answering side has it at once, the asking one when it is answered.
  expect_alternate(theirs, 1, 1);
  EXPECT_EQ(fails_with(ib_cm_send_lap(ours, &second, nullptr, 0)), EINVAL) << "one at a time";
  char info[] = "fine";
  ASSERT_EQ(ib_cm_send_apr(theirs, IB_CM_APR_SUCCESS, info, 5, text, 6), 0) << ib_cm_last_error();
  {
    const OwnedEvent answered = next(a, IB_CM_APR_RECEIVED);
    EXPECT_EQ(answered->param.apr_rcvd.ap_status, IB_CM_APR_SUCCESS);
    EXPECT_EQ(answered->param.apr_rcvd.info_len, 5);
    EXPECT_STREQ(static_cast<const char*>(answered->param.apr_rcvd.apr_info), "fine");
    EXPECT_EQ(text_of(answered), "hello");
  }
  expect_alternate(ours, 2, 1);
  ASSERT_EQ(ib_cm_notify(ours, IBV_EVENT_PATH_MIG), 0);
  expect_alternate(ours, 2, 0);
  destroy_both();
}

TEST_F(AlternatePaths, AreRefused) {
  establish();
  EXPECT_EQ(fails_with(ib_cm_send_apr(theirs, IB_CM_APR_SUCCESS, nullptr, 0, nullptr, 0)), EINVAL);
  load();
  ASSERT_EQ(ib_cm_send_apr(theirs, IB_CM_APR_INVALID_SL, nullptr, 0, nullptr, 0), 0);
  EXPECT_EQ(next(a, IB_CM_APR_RECEIVED)->param.apr_rcvd.ap_status, IB_CM_APR_INVALID_SL);
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(fails_with(ib_cm_init_qp_attr(ours, &attr, &mask)), EINVAL);
  EXPECT_EQ(fails_with(ib_cm_init_qp_attr(theirs, &attr, &mask)), EINVAL);
  EXPECT_EQ(fails_with(ib_cm_send_lap(ours, nullptr, nullptr, 0)), EINVAL);
  destroy_both();
}

TEST_F(AlternatePaths, MayTakeTime) {
  establish();
  load();
  ASSERT_EQ(ib_cm_send_mra(theirs, 21, text, 6), 0) << ib_cm_last_error();
  EXPECT_EQ(next(a, IB_CM_MRA_RECEIVED)->param.mra_rcvd.service_timeout, 21);
  ASSERT_EQ(ib_cm_send_apr(theirs, IB_CM_APR_SUCCESS, nullptr, 0, nullptr, 0), 0);
  next(a, IB_CM_APR_RECEIVED);
  destroy_both();
}

TEST_F(AlternatePaths, WithoutAnAnswer) {
  ours = create(a);
  ib_cm_req_param param = req_param();
  param.max_cm_retries = 0;
  ASSERT_EQ(ib_cm_send_req(ours, &param), 0);
  theirs = next(b, IB_CM_REQ_RECEIVED)->cm_id;
  ib_cm_rep_param rep = rep_param();
  ASSERT_EQ(ib_cm_send_rep(theirs, &rep), 0);
  next(a, IB_CM_REP_RECEIVED);
  ASSERT_EQ(ib_cm_send_rtu(ours, nullptr, 0), 0);
  next(b, IB_CM_RTU_RECEIVED);
  Wire::instance().set_filter([](std::uint8_t from, mad::CmKind) { return from == 1; });
  ASSERT_EQ(ib_cm_send_lap(ours, &second, nullptr, 0), 0);
  EXPECT_EQ(next(a, IB_CM_LAP_ERROR)->param.send_status, IBV_WC_RESP_TIMEOUT_ERR);
  Wire::instance().set_filter({});
  ASSERT_EQ(ib_cm_send_dreq(ours, nullptr, 0), 0) << "the connection is as it was";
  next(b, IB_CM_DREQ_RECEIVED);
  destroy_both();
}

}  // namespace
}  // namespace wireup::cm::ibcm
