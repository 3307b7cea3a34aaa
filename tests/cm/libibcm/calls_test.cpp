// SPDX-License-Identifier: BSD-3-Clause
//
// Each call's way that ends well.
#include <fcntl.h>

#include <thread>

#include "rig.hpp"

namespace wireup::cm::ibcm {
namespace {

TEST_F(Hosts, DevicesAreOpenedAndRefused) {
  EXPECT_EQ(a->device_context, Wire::context_of(1));
  EXPECT_GE(a->fd, 0);
  errno = 0;
  EXPECT_EQ(ib_cm_open_device(Wire::context_of(0)), nullptr);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_STREQ(ib_cm_last_error(), "host 0 has a port that another process uses");
  EXPECT_EQ(ib_cm_open_device(nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Hosts, IdsHaveWhatTheProgramGave) {
  int context = 0;
  ib_cm_id* first = create(a, &context);
  ib_cm_id* second = create(a);
  EXPECT_EQ(first->context, &context);
  EXPECT_EQ(first->device, a);
  EXPECT_NE(first->handle, second->handle);
  EXPECT_EQ(ib_cm_destroy_id(first), 0);
  EXPECT_EQ(ib_cm_destroy_id(second), 0);
}

TEST_F(Hosts, AConnectionIsMade) {
  int context = 0;
  listener->context = &context;
  ours = create(a);
  ib_cm_req_param req = req_param();
  ASSERT_EQ(ib_cm_send_req(ours, &req), 0) << ib_cm_last_error();

  const OwnedEvent asked = next(b, IB_CM_REQ_RECEIVED);
  theirs = asked->cm_id;
  const ib_cm_req_event_param& got = asked->param.req_rcvd;
  EXPECT_EQ(got.listen_id, listener);
  EXPECT_NE(theirs, listener);
  EXPECT_EQ(theirs->context, &context);
  EXPECT_EQ(theirs->device, b);
  EXPECT_EQ(got.port, 1);
  EXPECT_EQ(be64toh(got.remote_ca_guid), Wire::guid_of(1).value());
  EXPECT_EQ(got.remote_qpn, 0x111U);
  EXPECT_EQ(got.qp_type, IBV_QPT_RC);
  EXPECT_EQ(got.starting_psn, 0x1234U);
  EXPECT_EQ(got.responder_resources, 2) << "the peer's initiator depth";
  EXPECT_EQ(got.initiator_depth, 4) << "the peer's responder resources";
  EXPECT_EQ(unsigned{got.local_cm_response_timeout}, 18U) << "the peer's remote one";
  EXPECT_EQ(unsigned{got.remote_cm_response_timeout}, 17U);
  EXPECT_EQ(unsigned{got.flow_control}, 1U);
  EXPECT_EQ(unsigned{got.retry_count}, 6U);
  EXPECT_EQ(unsigned{got.rnr_retry_count}, 5U);
  EXPECT_EQ(unsigned{got.srq}, 0U);
  EXPECT_EQ(text_of(asked), "hello");
  EXPECT_EQ(got.alternate_path, nullptr);
  ASSERT_NE(got.primary_path, nullptr);
  const ibv_sa_path_rec& path = *got.primary_path;
  EXPECT_EQ(be16toh(path.dlid), Wire::lid_of(1).value());
  EXPECT_EQ(be16toh(path.slid), Wire::lid_of(2).value());
  EXPECT_EQ(std::memcmp(path.dgid.raw, Wire::gid_of(1).bytes().data(), 16), 0);
  EXPECT_EQ(std::memcmp(path.sgid.raw, Wire::gid_of(2).bytes().data(), 16), 0);
  EXPECT_EQ(path.pkey, 0xFFFF);
  EXPECT_EQ(path.sl, 2);
  EXPECT_EQ(path.mtu, IBV_MTU_2048);
  EXPECT_EQ(path.rate, IBV_RATE_10_GBPS);
  EXPECT_EQ(path.packet_life_time, 8) << "the ACK timeout in the REQ less one";
  EXPECT_EQ(path.reversible, 1);

  ib_cm_rep_param rep = rep_param();
  ASSERT_EQ(ib_cm_send_rep(theirs, &rep), 0) << ib_cm_last_error();
  OwnedEvent answered = next(a, IB_CM_REP_RECEIVED);
  EXPECT_EQ(answered->cm_id, ours);
  const ib_cm_rep_event_param& back = answered->param.rep_rcvd;
  EXPECT_EQ(be64toh(back.remote_ca_guid), Wire::guid_of(2).value());
  EXPECT_EQ(back.remote_qpn, 0x222U);
  EXPECT_EQ(back.starting_psn, 0x5678U);
  EXPECT_EQ(back.responder_resources, 3);
  EXPECT_EQ(back.initiator_depth, 2);
  EXPECT_EQ(unsigned{back.target_ack_delay}, 7U);
  EXPECT_EQ(unsigned{back.failover_accepted}, 1U);
  EXPECT_EQ(unsigned{back.flow_control}, 1U);
  EXPECT_EQ(unsigned{back.rnr_retry_count}, 4U);
  EXPECT_EQ(unsigned{back.srq}, 1U);
  EXPECT_EQ(text_of(answered), "hello");

  ASSERT_EQ(ib_cm_send_rtu(ours, text, 6), 0);
  OwnedEvent ready = next(b, IB_CM_RTU_RECEIVED);
  EXPECT_EQ(ready->cm_id, theirs);
  EXPECT_EQ(text_of(ready), "hello");
  answered.reset();
  ready.reset();
  destroy_both();
}

TEST_F(Hosts, AttributesOfIdsAreTheMessages) {
  ib_cm_attr_param param{};
  ASSERT_EQ(ib_cm_attr_id(listener, &param), 0);
  EXPECT_EQ(be64toh(param.service_id), kService);
  EXPECT_EQ(be64toh(param.service_mask), ~std::uint64_t{0});
  establish();
  ib_cm_attr_param here{};
  ib_cm_attr_param there{};
  ASSERT_EQ(ib_cm_attr_id(ours, &here), 0);
  ASSERT_EQ(ib_cm_attr_id(theirs, &there), 0);
  EXPECT_EQ(be64toh(here.service_id), kService);
  EXPECT_EQ(be64toh(there.service_id), kService);
  EXPECT_NE(here.local_id, 0U);
  EXPECT_EQ(here.local_id, there.remote_id);
  EXPECT_EQ(here.remote_id, there.local_id);
  EXPECT_EQ(fails_with(ib_cm_attr_id(ours, nullptr)), EINVAL);
  destroy_both();
}

TEST_F(Hosts, ListenersHaveRangesAndIdsOfTheirOwn) {
  ib_cm_id* range = create(b);
  ASSERT_EQ(ib_cm_listen(range, htobe64(0x2000), htobe64(0xFFFFFFFFFFFFFF00ULL)), 0);
  ib_cm_id* again = create(b);
  EXPECT_EQ(fails_with(ib_cm_listen(again, htobe64(kService), 0)), EBUSY);
  EXPECT_EQ(fails_with(ib_cm_listen(again, htobe64(0x0200000000000005ULL), 0)), EINVAL);
  ASSERT_EQ(ib_cm_listen(again, IB_CM_ASSIGN_SERVICE_ID, 0), 0);
  EXPECT_EQ(fails_with(ib_cm_listen(again, htobe64(0x3000), 0)), EINVAL) << "listens already";
  ib_cm_attr_param assigned{};
  ASSERT_EQ(ib_cm_attr_id(again, &assigned), 0);
  EXPECT_EQ(assigned.service_id & IB_CM_ASSIGN_SERVICE_ID_MASK, IB_CM_ASSIGN_SERVICE_ID);
  EXPECT_NE(assigned.service_id, IB_CM_ASSIGN_SERVICE_ID);

  ib_cm_id* first = create(a);
  ib_cm_req_param param = req_param(0x301);
  param.service_id = htobe64(0x2042);
  ASSERT_EQ(ib_cm_send_req(first, &param), 0);
  ib_cm_id* offered = nullptr;
  {
    const OwnedEvent asked = next(b, IB_CM_REQ_RECEIVED);
    EXPECT_EQ(asked->param.req_rcvd.listen_id, range);
    offered = asked->cm_id;
  }
  ib_cm_id* second = create(a);
  param = req_param(0x302);
  param.service_id = assigned.service_id;
  ASSERT_EQ(ib_cm_send_req(second, &param), 0);
  ib_cm_id* other = nullptr;
  {
    const OwnedEvent asked = next(b, IB_CM_REQ_RECEIVED);
    EXPECT_EQ(asked->param.req_rcvd.listen_id, again);
    other = asked->cm_id;
  }
  ib_cm_id* third = create(a);
  param = req_param(0x303);
  param.service_id = htobe64(0x2142);
  ASSERT_EQ(ib_cm_send_req(third, &param), 0);
  EXPECT_EQ(next(a, IB_CM_REJ_RECEIVED)->param.rej_rcvd.reason, IB_CM_REJ_INVALID_SERVICE_ID);
  for (ib_cm_id* id : {offered, other, first, second, third, range, again}) {
    EXPECT_EQ(ib_cm_destroy_id(id), 0);
  }
}

TEST_F(Hosts, RefusalsSayWhy) {
  request();
  char why[] = "because";
  EXPECT_EQ(ib_cm_send_rej(theirs, IB_CM_REJ_CONSUMER_DEFINED, why, 7, text, 6), 0);
  {
    const OwnedEvent refused = next(a, IB_CM_REJ_RECEIVED);
    EXPECT_EQ(refused->cm_id, ours);
    EXPECT_EQ(refused->param.rej_rcvd.reason, IB_CM_REJ_CONSUMER_DEFINED);
    EXPECT_EQ(refused->param.rej_rcvd.ari_length, 7);
    EXPECT_STREQ(static_cast<const char*>(refused->param.rej_rcvd.ari), "because");
    EXPECT_EQ(text_of(refused), "hello");
  }
  // The id is idle again, and may try once more.
  ib_cm_req_param param = req_param();
  EXPECT_EQ(ib_cm_send_req(ours, &param), 0) << ib_cm_last_error();
  EXPECT_EQ(ib_cm_destroy_id(theirs), 0);
  theirs = next(b, IB_CM_REQ_RECEIVED)->cm_id;
  destroy_both();
}

TEST_F(Hosts, TheActiveSideMayRefuseTheReply) {
  reply();
  EXPECT_EQ(ib_cm_send_rej(ours, IB_CM_REJ_NO_RESOURCES, nullptr, 0, nullptr, 0), 0);
  EXPECT_EQ(next(b, IB_CM_REJ_RECEIVED)->param.rej_rcvd.reason, IB_CM_REJ_NO_RESOURCES);
  destroy_both();
}

TEST_F(Hosts, MrasAskForPatience) {
  request();
  EXPECT_EQ(ib_cm_send_mra(theirs, 19, text, 6), 0);
  {
    const OwnedEvent asked = next(a, IB_CM_MRA_RECEIVED);
    EXPECT_EQ(asked->param.mra_rcvd.service_timeout, 19);
    EXPECT_EQ(text_of(asked), "hello");
  }
  ib_cm_rep_param param = rep_param();
  ASSERT_EQ(ib_cm_send_rep(theirs, &param), 0);
  next(a, IB_CM_REP_RECEIVED);
  EXPECT_EQ(ib_cm_send_mra(ours, 20, nullptr, 0), 0);
  EXPECT_EQ(next(b, IB_CM_MRA_RECEIVED)->param.mra_rcvd.service_timeout, 20);
  ASSERT_EQ(ib_cm_send_rtu(ours, nullptr, 0), 0);
  next(b, IB_CM_RTU_RECEIVED);
  EXPECT_EQ(fails_with(ib_cm_send_mra(ours, 20, nullptr, 0)), EINVAL);
  destroy_both();
}

TEST_F(Hosts, ReleasesAreAnsweredByTheProgram) {
  establish();
  EXPECT_EQ(fails_with(ib_cm_send_drep(theirs, nullptr, 0)), EINVAL) << "nobody asked";
  ASSERT_EQ(ib_cm_send_dreq(ours, text, 6), 0);
  EXPECT_EQ(text_of(next(b, IB_CM_DREQ_RECEIVED)), "hello");
  char bye[] = "bye";
  ASSERT_EQ(ib_cm_send_drep(theirs, bye, 4), 0);
  EXPECT_EQ(text_of(next(a, IB_CM_DREP_RECEIVED)), "bye");
  EXPECT_EQ(next(a, IB_CM_TIMEWAIT_EXIT)->private_data, nullptr);
  next(b, IB_CM_TIMEWAIT_EXIT);
  EXPECT_EQ(fails_with(ib_cm_send_dreq(ours, nullptr, 0)), EINVAL);
  destroy_both();
}

TEST_F(Hosts, DataBeforeTheRtuEstablishes) {
  reply();
  ASSERT_EQ(ib_cm_notify(theirs, IBV_EVENT_COMM_EST), 0) << ib_cm_last_error();
  EXPECT_EQ(next(b, IB_CM_USER_ESTABLISHED)->cm_id, theirs);
  EXPECT_EQ(fails_with(ib_cm_notify(theirs, IBV_EVENT_COMM_EST)), EISCONN);
  EXPECT_EQ(fails_with(ib_cm_notify(ours, IBV_EVENT_COMM_EST)), EINVAL) << "knows by its RTU";
  EXPECT_EQ(fails_with(ib_cm_notify(ours, IBV_EVENT_QP_FATAL)), EINVAL);
  ASSERT_EQ(ib_cm_send_rtu(ours, nullptr, 0), 0);
  ASSERT_EQ(ib_cm_send_dreq(ours, nullptr, 0), 0);
  next(b, IB_CM_DREQ_RECEIVED);
  destroy_both();
}

TEST_F(Hosts, QueuePairsAreMovedByTheMessages) {
  request();
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = IBV_QPS_INIT;
  ASSERT_EQ(ib_cm_init_qp_attr(ours, &attr, &mask), 0);
  EXPECT_EQ(attr.pkey_index, 3);
  EXPECT_EQ(attr.port_num, 1);
  attr.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(fails_with(ib_cm_init_qp_attr(ours, &attr, &mask)), EINVAL);
  ASSERT_EQ(ib_cm_init_qp_attr(theirs, &attr, &mask), 0);
  EXPECT_EQ(attr.dest_qp_num, 0x111U);
  EXPECT_EQ(attr.ah_attr.dlid, Wire::lid_of(1).value());
  EXPECT_EQ(attr.max_dest_rd_atomic, 2);
  ib_cm_rep_param rep = rep_param();
  ASSERT_EQ(ib_cm_send_rep(theirs, &rep), 0);
  next(a, IB_CM_REP_RECEIVED);
  attr.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(ib_cm_init_qp_attr(theirs, &attr, &mask), 0);
  EXPECT_EQ(attr.rq_psn, 0x5678U);
  ASSERT_EQ(ib_cm_init_qp_attr(ours, &attr, &mask), 0);
  EXPECT_EQ(attr.dest_qp_num, 0x222U);
  EXPECT_EQ(attr.rq_psn, 0x1234U);
  EXPECT_EQ(attr.max_dest_rd_atomic, 3);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_2048);
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ib_cm_init_qp_attr(ours, &attr, &mask), 0);
  EXPECT_EQ(attr.sq_psn, 0x5678U);
  EXPECT_EQ(attr.max_rd_atomic, 2);
  EXPECT_EQ(attr.retry_cnt, 6);
  EXPECT_EQ(attr.rnr_retry, 4);
  // Two lifetimes of 2^8 and the REP's delay of 2^7.
  EXPECT_EQ(attr.timeout, 9);
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ib_cm_init_qp_attr(theirs, &attr, &mask), 0);
  EXPECT_EQ(attr.sq_psn, 0x1234U);
  EXPECT_EQ(attr.max_rd_atomic, 3);
  EXPECT_EQ(attr.rnr_retry, 5);
  EXPECT_EQ(attr.retry_cnt, 6);
  EXPECT_EQ(fails_with(ib_cm_init_qp_attr(ours, nullptr, &mask)), EINVAL);
  destroy_both();
}

TEST_F(Hosts, ServicesAreResolved) {
  ibv_sa_path_rec path = path_between(1, 2);
  ib_cm_sidr_req_param param{};
  param.path = &path;
  param.service_id = htobe64(kService);
  param.timeout_ms = 10'000;
  param.private_data = text;
  param.private_data_len = 6;
  param.max_cm_retries = 5;
  ours = create(a);
  ASSERT_EQ(ib_cm_send_sidr_req(ours, &param), 0) << ib_cm_last_error();
  {
    const OwnedEvent asked = next(b, IB_CM_SIDR_REQ_RECEIVED);
    theirs = asked->cm_id;
    EXPECT_EQ(asked->param.sidr_req_rcvd.listen_id, listener);
    EXPECT_EQ(asked->param.sidr_req_rcvd.port, 1);
    EXPECT_EQ(asked->param.sidr_req_rcvd.pkey, 0xFFFF);
    EXPECT_EQ(text_of(asked), "hello");
  }
  char info[] = "there";
  ib_cm_sidr_rep_param answer{};
  answer.qp_num = 0x765;
  answer.qkey = 0x11223344;
  answer.status = IB_SIDR_SUCCESS;
  answer.info = info;
  answer.info_length = 6;
  answer.private_data = text;
  answer.private_data_len = 6;
  ASSERT_EQ(ib_cm_send_sidr_rep(theirs, &answer), 0) << ib_cm_last_error();
  OwnedEvent answered = next(a, IB_CM_SIDR_REP_RECEIVED);
  EXPECT_EQ(answered->cm_id, ours);
  const ib_cm_sidr_rep_event_param& got = answered->param.sidr_rep_rcvd;
  EXPECT_EQ(got.status, IB_SIDR_SUCCESS);
  EXPECT_EQ(got.qpn, 0x765U);
  EXPECT_EQ(got.qkey, 0x11223344U);
  EXPECT_EQ(got.info_len, 6);
  EXPECT_STREQ(static_cast<const char*>(got.info), "there");
  EXPECT_EQ(text_of(answered), "hello");
  EXPECT_EQ(fails_with(ib_cm_send_sidr_rep(theirs, &answer)), EINVAL) << "answered";
  answered.reset();
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);

  ib_cm_id* other = create(a);
  param.service_id = htobe64(0x7777);
  ASSERT_EQ(ib_cm_send_sidr_req(other, &param), 0);
  EXPECT_EQ(next(a, IB_CM_SIDR_REP_RECEIVED)->param.sidr_rep_rcvd.status, IB_SIDR_UNSUPPORTED);
  EXPECT_EQ(ib_cm_destroy_id(other), 0);
  EXPECT_EQ(ib_cm_destroy_id(theirs), 0);
}

TEST_F(Hosts, PrivateDataHasALength) {
  request();
  char data[] = "\0x\0\0";
  ib_cm_rep_param param = rep_param();
  param.private_data = data;
  param.private_data_len = 4;
  ASSERT_EQ(ib_cm_send_rep(theirs, &param), 0);
  OwnedEvent answered = next(a, IB_CM_REP_RECEIVED);
  std::size_t used = 99;
  EXPECT_EQ(ib_cm_event_private_data_len(answered.get(), &used), 196U);
  EXPECT_EQ(used, 2U);
  EXPECT_EQ(ib_cm_event_private_data_len(answered.get(), nullptr), 196U);
  EXPECT_EQ(ib_cm_event_private_data_len(nullptr, &used), 0U);
  EXPECT_EQ(used, 0U);
  answered.reset();
  destroy_both();
}

TEST_F(Hosts, BothMayCallEachOther) {
  ib_cm_req_param here = req_param(0x111);
  here.peer_to_peer = 1;
  here.service_id = htobe64(0x4000);
  ib_cm_req_param there = here;
  ibv_sa_path_rec back = path_between(2, 1);
  there.primary_path = &back;
  there.qp_num = 0x222;
  ours = create(a);
  theirs = create(b);
  ASSERT_EQ(ib_cm_send_req(ours, &here), 0);
  ASSERT_EQ(ib_cm_send_req(theirs, &there), 0);
  // The larger GUID stays the active side: host 2.
  {
    const OwnedEvent asked = next(a, IB_CM_REQ_RECEIVED);
    EXPECT_EQ(asked->cm_id, ours) << "no id of its own";
    EXPECT_EQ(asked->param.req_rcvd.listen_id, ours);
  }
  ib_cm_rep_param rep = rep_param(0x111);
  ASSERT_EQ(ib_cm_send_rep(ours, &rep), 0) << ib_cm_last_error();
  EXPECT_EQ(next(b, IB_CM_REP_RECEIVED)->cm_id, theirs);
  ASSERT_EQ(ib_cm_send_rtu(theirs, nullptr, 0), 0);
  next(a, IB_CM_RTU_RECEIVED);
  destroy_both();
}

TEST_F(Hosts, WhatCannotBeSentIsRefused) {
  ours = create(a);
  ib_cm_req_param param = req_param();
  EXPECT_EQ(fails_with(ib_cm_send_req(ours, nullptr)), EINVAL);
  param.primary_path = nullptr;
  EXPECT_EQ(fails_with(ib_cm_send_req(ours, &param)), EINVAL);
  param = req_param();
  param.private_data_len = 93;
  char long_data[255] = {};
  param.private_data = long_data;
  EXPECT_EQ(fails_with(ib_cm_send_req(ours, &param)), EINVAL);
  param = req_param();
  param.qp_type = IBV_QPT_UD;
  EXPECT_EQ(fails_with(ib_cm_send_req(ours, &param)), EINVAL);
  param = req_param();
  param.qp_num = 0x1000000;
  EXPECT_EQ(fails_with(ib_cm_send_req(ours, &param)), EINVAL);
  param = req_param();
  primary.pkey = htobe16(0x8001);
  EXPECT_EQ(fails_with(ib_cm_send_req(ours, &param)), EINVAL) << "not in the port's table";
  param = req_param();
  primary = path_between(2, 1);
  EXPECT_EQ(fails_with(ib_cm_send_req(ours, &param)), EINVAL) << "begins elsewhere";
  EXPECT_NE(std::string(ib_cm_last_error()).find("no port"), std::string::npos);
  param = req_param();
  ibv_sa_path_rec other = path_between(1, 2, 1);
  other.mtu = IBV_MTU_256;
  param.alternate_path = &other;
  EXPECT_EQ(fails_with(ib_cm_send_req(ours, &param)), EINVAL) << "both have one MTU";
  EXPECT_EQ(fails_with(ib_cm_send_rtu(ours, nullptr, 0)), EINVAL);
  EXPECT_EQ(fails_with(ib_cm_send_rej(ours, IB_CM_REJ_NO_QP, nullptr, 0, nullptr, 0)), EINVAL);
  EXPECT_EQ(fails_with(ib_cm_send_rtu(nullptr, nullptr, 0)), EINVAL);
  EXPECT_EQ(fails_with(ib_cm_get_event(a, nullptr)), EINVAL);
  EXPECT_EQ(fails_with(ib_cm_ack_event(nullptr)), EINVAL);
  EXPECT_EQ(fails_with(ib_cm_destroy_id(nullptr)), EINVAL);
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);
  EXPECT_TRUE(is_quiet(b));
}

TEST_F(Hosts, ADescriptorThatDoesNotBlock) {
  const int flags = ::fcntl(a->fd, F_GETFL);
  ASSERT_EQ(::fcntl(a->fd, F_SETFL, flags | O_NONBLOCK), 0);
  ib_cm_event* event = nullptr;
  EXPECT_EQ(fails_with(ib_cm_get_event(a, &event)), EAGAIN);
  reply();
  EXPECT_TRUE(is_quiet(a));
  EXPECT_EQ(fails_with(ib_cm_get_event(a, &event)), EAGAIN);
  destroy_both();
}

}  // namespace
}  // namespace wireup::cm::ibcm
