// SPDX-License-Identifier: BSD-3-Clause
//
// Messages without an answer, and ids, events and devices that end.
#include <atomic>
#include <thread>
#include <utility>

#include "rig.hpp"

namespace wireup::cm::ibcm {
namespace {

using mad::CmKind;

Wire::Filter lose(std::uint8_t host, CmKind lost) {
  return [=](std::uint8_t from, CmKind kind) { return from == host && kind == lost; };
}

/// Timeouts as short as the format has them.
class Ends : public Hosts {
 protected:
  ib_cm_req_param hasty_param() {
    ib_cm_req_param param = req_param();
    param.remote_cm_response_timeout = 12;
    param.local_cm_response_timeout = 12;
    param.max_cm_retries = 3;
    return param;
  }
  void hasty_request() {
    ours = create(a);
    ib_cm_req_param param = hasty_param();
    ASSERT_EQ(ib_cm_send_req(ours, &param), 0);
  }
};

TEST_F(Ends, ARequestWithoutAnAnswer) {
  Wire::instance().set_filter(lose(1, CmKind::Req));
  hasty_request();
  OwnedEvent failed = next(a, IB_CM_REQ_ERROR);
  EXPECT_EQ(failed->cm_id, ours);
  EXPECT_EQ(failed->param.send_status, IBV_WC_RESP_TIMEOUT_ERR);
  EXPECT_EQ(failed->private_data, nullptr);
  EXPECT_EQ(Wire::instance().sent(1, CmKind::Req), 4U) << "once, and three times again";
  EXPECT_TRUE(is_quiet(b));
  failed.reset();
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);
}

TEST_F(Ends, AReplyWithoutAnAnswer) {
  hasty_request();
  theirs = next(b, IB_CM_REQ_RECEIVED)->cm_id;
  Wire::instance().set_filter(
      [](std::uint8_t from, CmKind kind) { return from == 2 && kind != CmKind::Dreq; });
  ib_cm_rep_param param = rep_param();
  ASSERT_EQ(ib_cm_send_rep(theirs, &param), 0);
  EXPECT_EQ(next(b, IB_CM_REP_ERROR)->param.send_status, IBV_WC_RESP_TIMEOUT_ERR);
  EXPECT_EQ(Wire::instance().sent(2, CmKind::Rej), 1U);
  destroy_both();
}

TEST_F(Ends, AReleaseWithoutAnAnswer) {
  ours = create(a);
  ib_cm_req_param param = hasty_param();
  // The REQ itself shall have time.
  param.remote_cm_response_timeout = 18;
  param.max_cm_retries = 1;
  ASSERT_EQ(ib_cm_send_req(ours, &param), 0);
  theirs = next(b, IB_CM_REQ_RECEIVED)->cm_id;
  ib_cm_rep_param rep = rep_param();
  ASSERT_EQ(ib_cm_send_rep(theirs, &rep), 0);
  next(a, IB_CM_REP_RECEIVED);
  ASSERT_EQ(ib_cm_send_rtu(ours, nullptr, 0), 0);
  next(b, IB_CM_RTU_RECEIVED);
  Wire::instance().set_filter(lose(1, CmKind::Dreq));
  ASSERT_EQ(ib_cm_send_dreq(ours, nullptr, 0), 0);
  EXPECT_EQ(next(a, IB_CM_DREQ_ERROR)->param.send_status, IBV_WC_RESP_TIMEOUT_ERR);
  EXPECT_EQ(Wire::instance().sent(1, CmKind::Dreq), 2U);
  next(a, IB_CM_TIMEWAIT_EXIT);
  EXPECT_TRUE(is_quiet(b));
  destroy_both();
}

TEST_F(Ends, AResolutionWithoutAnAnswer) {
  Wire::instance().set_filter(lose(1, CmKind::SidrReq));
  ibv_sa_path_rec path = path_between(1, 2);
  ib_cm_sidr_req_param param{};
  param.path = &path;
  param.service_id = htobe64(kService);
  param.timeout_ms = 20;
  param.max_cm_retries = 2;
  ours = create(a);
  ASSERT_EQ(ib_cm_send_sidr_req(ours, &param), 0);
  EXPECT_EQ(next(a, IB_CM_SIDR_REQ_ERROR)->param.send_status, IBV_WC_RESP_TIMEOUT_ERR);
  EXPECT_EQ(Wire::instance().sent(1, CmKind::SidrReq), 3U);
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);
}

TEST_F(Ends, LostMessagesAreRepeatedWhileTheProgramSleeps) {
  // Every first copy is lost; the devices' threads make it good.
  auto seen = std::make_shared<std::map<std::pair<std::uint8_t, CmKind>, int>>();
  Wire::instance().set_filter([seen](std::uint8_t from, CmKind kind) {
    return kind != CmKind::Rtu && (*seen)[{from, kind}]++ == 0;
  });
  ours = create(a);
  ib_cm_req_param param = req_param();
  param.remote_cm_response_timeout = 12;
  param.local_cm_response_timeout = 12;
  ASSERT_EQ(ib_cm_send_req(ours, &param), 0);
  theirs = next(b, IB_CM_REQ_RECEIVED)->cm_id;
  ib_cm_rep_param rep = rep_param();
  ASSERT_EQ(ib_cm_send_rep(theirs, &rep), 0);
  next(a, IB_CM_REP_RECEIVED);
  ASSERT_EQ(ib_cm_send_rtu(ours, nullptr, 0), 0);
  next(b, IB_CM_RTU_RECEIVED);
  ASSERT_EQ(ib_cm_send_dreq(ours, nullptr, 0), 0);
  next(b, IB_CM_DREQ_RECEIVED);
  ASSERT_EQ(ib_cm_send_drep(theirs, nullptr, 0), 0);
  next(a, IB_CM_DREP_RECEIVED);
  destroy_both();
}

TEST_F(Ends, AReleaseThatOvertakesTheRtu) {
  reply();
  Wire::instance().set_filter(lose(1, CmKind::Rtu));
  ASSERT_EQ(ib_cm_send_rtu(ours, nullptr, 0), 0);
  ASSERT_EQ(ib_cm_send_dreq(ours, nullptr, 0), 0);
  next(b, IB_CM_DREQ_RECEIVED);
  ASSERT_EQ(ib_cm_send_drep(theirs, nullptr, 0), 0);
  next(a, IB_CM_DREP_RECEIVED);
  destroy_both();
}

TEST_F(Ends, CrossingReleases) {
  establish();
  ASSERT_EQ(ib_cm_send_dreq(ours, nullptr, 0), 0);
  const int status = ib_cm_send_dreq(theirs, nullptr, 0);
  // Whether they cross is for the threads to decide.
  EXPECT_TRUE(status == 0 || errno == EINVAL);
  if (status != 0) {
    next(b, IB_CM_DREQ_RECEIVED);
  } else {
    pollfd readable{b->fd, POLLIN, 0};
    ASSERT_EQ(::poll(&readable, 1, kPatienceMs), 1);
  }
  destroy_both();
}

TEST_F(Ends, DestroyingARequestTellsThePeer) {
  request();
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);
  OwnedEvent refused = next(b, IB_CM_REJ_RECEIVED);
  EXPECT_EQ(refused->param.rej_rcvd.reason, IB_CM_REJ_TIMEOUT);
  EXPECT_EQ(refused->param.rej_rcvd.ari_length, 8);
  const auto* guid = static_cast<const std::uint8_t*>(refused->param.rej_rcvd.ari);
  EXPECT_EQ(guid[7], 1);
  EXPECT_EQ(guid[6], 0xA0);
  refused.reset();
  EXPECT_EQ(ib_cm_destroy_id(theirs), 0);
}

TEST_F(Ends, DestroyingAnOfferRefusesIt) {
  request();
  EXPECT_EQ(ib_cm_destroy_id(theirs), 0);
  EXPECT_EQ(next(a, IB_CM_REJ_RECEIVED)->param.rej_rcvd.reason, IB_CM_REJ_CONSUMER_DEFINED);
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);
}

TEST_F(Ends, DestroyingAConnectionReleasesIt) {
  establish();
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);
  next(b, IB_CM_DREQ_RECEIVED);
  EXPECT_EQ(ib_cm_destroy_id(theirs), 0) << "answers it";
  EXPECT_TRUE(is_quiet(a));
}

TEST_F(Ends, DestroyingAResolutionRefusesIt) {
  ibv_sa_path_rec path = path_between(1, 2);
  ib_cm_sidr_req_param param{};
  param.path = &path;
  param.service_id = htobe64(kService);
  param.timeout_ms = 10'000;
  ours = create(a);
  ASSERT_EQ(ib_cm_send_sidr_req(ours, &param), 0);
  theirs = next(b, IB_CM_SIDR_REQ_RECEIVED)->cm_id;
  EXPECT_EQ(ib_cm_destroy_id(theirs), 0);
  EXPECT_EQ(next(a, IB_CM_SIDR_REP_RECEIVED)->param.sidr_rep_rcvd.status, IB_SIDR_REJECT);
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);
}

TEST_F(Ends, DestroyingAListenerRefusesWhatNobodyHasSeen) {
  ours = create(a);
  ib_cm_req_param param = req_param();
  ASSERT_EQ(ib_cm_send_req(ours, &param), 0);
  pollfd readable{b->fd, POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, kPatienceMs), 1);
  EXPECT_EQ(ib_cm_destroy_id(std::exchange(listener, nullptr)), 0);
  EXPECT_TRUE(is_quiet(b));
  EXPECT_EQ(next(a, IB_CM_REJ_RECEIVED)->param.rej_rcvd.reason, IB_CM_REJ_CONSUMER_DEFINED);
  ASSERT_EQ(ib_cm_send_req(ours, &param), 0);
  EXPECT_EQ(next(a, IB_CM_REJ_RECEIVED)->param.rej_rcvd.reason, IB_CM_REJ_INVALID_SERVICE_ID);
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);
}

TEST_F(Ends, DestroyingWaitsForAcknowledgements) {
  request();
  ib_cm_rep_param param = rep_param();
  ASSERT_EQ(ib_cm_send_rep(theirs, &param), 0);
  OwnedEvent answered = next(a, IB_CM_REP_RECEIVED);
  std::atomic<bool> is_destroyed = false;
  std::thread destroyer([&] {
    EXPECT_EQ(ib_cm_destroy_id(ours), 0);
    is_destroyed = true;
  });
  // It tells the peer before it waits.
  EXPECT_EQ(next(b, IB_CM_REJ_RECEIVED)->cm_id, theirs);
  EXPECT_FALSE(is_destroyed);
  answered.reset();
  destroyer.join();
  EXPECT_TRUE(is_destroyed);
  EXPECT_EQ(ib_cm_destroy_id(theirs), 0);
}

TEST_F(Ends, ClosingADeviceReleasesWhatIsLeft) {
  establish();
  ib_cm_close_device(std::exchange(a, ib_cm_open_device(Wire::context_of(3))));
  next(b, IB_CM_DREQ_RECEIVED);
  EXPECT_EQ(ib_cm_destroy_id(ours), 0) << "its memory is the program's";
  EXPECT_EQ(ib_cm_destroy_id(theirs), 0);
}

TEST_F(Ends, AnEventMayOutliveItsDevice) {
  reply();
  ASSERT_EQ(ib_cm_send_rej(theirs, IB_CM_REJ_CONSUMER_DEFINED, nullptr, 0, text, 6), 0);
  OwnedEvent refused = next(a, IB_CM_REJ_RECEIVED);
  ib_cm_close_device(std::exchange(a, ib_cm_open_device(Wire::context_of(3))));
  EXPECT_EQ(text_of(refused), "hello");
  refused.reset();
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);
  EXPECT_EQ(ib_cm_destroy_id(theirs), 0);
}

TEST_F(Ends, APeerThatHasForgottenEndsTheConnection) {
  establish();
  // Host 2 begins anew, and calls with the queue pair that was in the connection, after its guard.
  EXPECT_EQ(ib_cm_destroy_id(std::exchange(listener, nullptr)), 0);
  Wire::instance().set_filter([](std::uint8_t from, CmKind) { return from == 2; });
  ib_cm_close_device(b);
  b = ib_cm_open_device(Wire::context_of(2));
  EXPECT_EQ(ib_cm_destroy_id(theirs), 0);
  Wire::instance().set_filter({});
  ib_cm_id* here = listen(a, kService);
  ib_cm_id* again = create(b);
  ib_cm_req_param param = req_param(0x222);
  primary = path_between(2, 1);
  param.remote_cm_response_timeout = 16;
  ASSERT_EQ(ib_cm_send_req(again, &param), 0);
  EXPECT_EQ(next(b, IB_CM_REJ_RECEIVED)->param.rej_rcvd.reason, IB_CM_REJ_STALE_CONN);
  EXPECT_EQ(next(a, IB_CM_DREP_RECEIVED)->cm_id, ours);
  EXPECT_EQ(ib_cm_destroy_id(again), 0);
  EXPECT_EQ(ib_cm_destroy_id(here), 0);
  EXPECT_EQ(ib_cm_destroy_id(ours), 0);
}

}  // namespace
}  // namespace wireup::cm::ibcm
