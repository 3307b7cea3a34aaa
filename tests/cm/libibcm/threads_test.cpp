// SPDX-License-Identifier: BSD-3-Clause
//
// Every call from every thread.
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "rig.hpp"

namespace wireup::cm::ibcm {
namespace {

constexpr unsigned kThreads = 4;
constexpr unsigned kConnections = 25;

/// Answers everything until `count` connections are over.
void serve(ib_cm_device* device, unsigned count) {
  std::uint32_t qpn = 0x10000;
  for (unsigned over = 0; over < count;) {
    ib_cm_event* event = nullptr;
    ASSERT_EQ(ib_cm_get_event(device, &event), 0);
    ib_cm_id* const id = event->cm_id;
    ib_cm_rep_param rep{};
    rep.qp_num = qpn;
    switch (event->event) {
      case IB_CM_REQ_RECEIVED:
        ++qpn;
        EXPECT_EQ(ib_cm_send_rep(id, &rep), 0) << ib_cm_last_error();
        break;
      case IB_CM_DREQ_RECEIVED:
        EXPECT_EQ(ib_cm_send_drep(id, nullptr, 0), 0) << ib_cm_last_error();
        break;
      default:
        break;
    }
    const bool is_over = event->event == IB_CM_TIMEWAIT_EXIT;
    EXPECT_EQ(ib_cm_ack_event(event), 0);
    if (is_over) {
      EXPECT_EQ(ib_cm_destroy_id(id), 0);
      ++over;
    }
  }
}

TEST_F(Hosts, ManyThreadsShareADevice) {
  // An id's context is a mailbox; one thread of host 1 hands events out, others act on them.
  struct Call {
    std::atomic<int> event{-1};
  };
  std::thread server([&] { serve(b, kThreads * kConnections); });
  std::atomic<unsigned> left = kThreads * kConnections;
  std::thread dispatcher([&] {
    while (left > 0) {
      ib_cm_event* event = nullptr;
      ASSERT_EQ(ib_cm_get_event(a, &event), 0);
      auto* call = static_cast<Call*>(event->cm_id->context);
      const int type = event->event;
      EXPECT_EQ(ib_cm_ack_event(event), 0);
      if (type == IB_CM_TIMEWAIT_EXIT) {
        --left;
      }
      call->event = type;
    }
  });
  std::vector<std::thread> callers;
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    callers.emplace_back([&, thread] {
      ibv_sa_path_rec path = path_between(1, 2);
      for (unsigned i = 0; i < kConnections; ++i) {
        Call call;
        const auto wait_for = [&](int type) {
          while (call.event != type) {
            std::this_thread::yield();
          }
        };
        ib_cm_id* id = create(a, &call);
        ib_cm_req_param param{};
        param.primary_path = &path;
        param.service_id = htobe64(kService);
        param.qp_num = thread << 16U | (i + 1);
        param.qp_type = IBV_QPT_RC;
        param.remote_cm_response_timeout = 19;
        param.local_cm_response_timeout = 19;
        param.max_cm_retries = 15;
        EXPECT_EQ(ib_cm_send_req(id, &param), 0) << ib_cm_last_error();
        wait_for(IB_CM_REP_RECEIVED);
        EXPECT_EQ(ib_cm_send_rtu(id, nullptr, 0), 0) << ib_cm_last_error();
        EXPECT_EQ(ib_cm_send_dreq(id, nullptr, 0), 0) << ib_cm_last_error();
        wait_for(IB_CM_TIMEWAIT_EXIT);
        EXPECT_EQ(ib_cm_destroy_id(id), 0);
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  dispatcher.join();
  server.join();
}

TEST_F(Hosts, SignalsInterruptAProgramThatWaits) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> is_back = false;
  std::thread waiter([&] {
    ib_cm_event* event = nullptr;
    EXPECT_EQ(fails_with(ib_cm_get_event(a, &event)), EINTR);
    is_back = true;
  });
  while (!is_back) {
    ::pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  waiter.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace wireup::cm::ibcm
