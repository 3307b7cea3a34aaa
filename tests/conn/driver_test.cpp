// SPDX-License-Identifier: BSD-3-Clause
// The driver on an emulated adapter: several ranks in one process.
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/clock.hpp"
#include "conn/driver_rig.hpp"

#if defined(__SANITIZE_THREAD__)
/// The emulated adapter is not instrumented: ThreadSanitizer cannot see how it orders what it does.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1";
}
#endif

namespace wireup::conn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Options with_helper_thread() {
  Options options;
  options.helper_thread = true;
  return options;
}

ibv_wc take_completion(ibv_cq* cq) {
  ibv_wc completion{};
  const auto deadline = std::chrono::steady_clock::now() + seconds(10);
  while (ibv_poll_cq(cq, 1, &completion) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "no completion";
      break;
    }
  }
  return completion;
}

TEST_F(DriverRig, ConnectsMovesDataAndCloses) {
  open(2);
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(10)));
  const UserEvent active = next_event(0);
  const UserEvent passive = next_event(1);
  ASSERT_TRUE(std::holds_alternative<Connected>(active.event));
  ASSERT_TRUE(std::holds_alternative<Connected>(passive.event));
  EXPECT_EQ(active.qp, drivers[0]->qp(peer(1)));
  EXPECT_EQ(passive.qp, drivers[1]->qp(peer(0)));
  EXPECT_EQ(drivers[0]->connection(peer(1))->attributes.peer_qpn.value(), passive.qp->qp_num);

  std::array<char, 64> buffer{};
  ibv_mr* mr = ibv_reg_mr(drivers[1]->pd(), buffer.data(), buffer.size(), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  ibv_sge part{reinterpret_cast<std::uint64_t>(buffer.data()), buffer.size(), mr->lkey};
  ibv_recv_wr receive{1, nullptr, &part, 1};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(passive.qp, &receive, &bad_receive), 0);
  char text[] = "through the emulated adapter";
  ibv_sge from{reinterpret_cast<std::uint64_t>(text), sizeof text, 0};
  ibv_send_wr send{};
  send.sg_list = &from;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ibv_send_wr* bad_send = nullptr;
  ASSERT_EQ(ibv_post_send(active.qp, &send, &bad_send), 0);
  EXPECT_EQ(take_completion(drivers[0]->send_cq()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(take_completion(drivers[1]->receive_cq()).status, IBV_WC_SUCCESS);
  EXPECT_STREQ(buffer.data(), text);

  // What is still posted when the peer closes is flushed, and the queue pair can be seen until the
  // next event is asked for.
  ASSERT_EQ(ibv_post_recv(passive.qp, &receive, &bad_receive), 0);
  ASSERT_TRUE(drivers[0]->close(peer(1)));
  const UserEvent ended = next_event(1);
  EXPECT_EQ(std::get<Disconnected>(ended.event).reason, EndReason::Peer);
  ASSERT_EQ(ended.qp, passive.qp);
  EXPECT_EQ(ended.qp->state, IBV_QPS_ERR);
  EXPECT_EQ(take_completion(drivers[1]->receive_cq()).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(drivers[1]->qp(peer(0)), nullptr);
  EXPECT_EQ(std::get<Disconnected>(next_event(0).event).reason, EndReason::Local);
  EXPECT_FALSE(drivers[1]->poll_event().has_value());
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(DriverRig, BothSidesAtOnceGiveOneConnection) {
  open(2);
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(10)));
  ASSERT_TRUE(drivers[1]->connect(peer(0), seconds(10)));
  EXPECT_TRUE(std::holds_alternative<Connected>(next_event(0).event));
  EXPECT_TRUE(std::holds_alternative<Connected>(next_event(1).event));
  EXPECT_EQ(drivers[0]->qp(peer(1))->qp_num,
            drivers[1]->connection(peer(0))->attributes.peer_qpn.value());
  EXPECT_EQ(drivers[0]->stats().ready, 1U);
  EXPECT_FALSE(drivers[0]->poll_event().has_value());
  EXPECT_FALSE(drivers[1]->poll_event().has_value());
}

TEST_F(DriverRig, ToOneself) {
  open(1);
  ASSERT_TRUE(drivers[0]->connect(peer(0), seconds(10)));
  const UserEvent event = next_event(0);
  ASSERT_TRUE(std::holds_alternative<Connected>(event.event));
  ASSERT_TRUE(drivers[0]->close(peer(0)));
  EXPECT_TRUE(std::holds_alternative<Disconnected>(next_event(0).event));
}

TEST_F(DriverRig, TheDescriptorTellsWhenThereIsSomethingToDo) {
  open(2);
  const auto is_readable = [&](int fd, int limit) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, limit) == 1;
  };
  // Quiet: after some turns the descriptor is silent.
  const auto deadline = std::chrono::steady_clock::now() + seconds(10);
  while (is_readable(drivers[1]->fd(), 0)) {
    ASSERT_TRUE(drivers[1]->progress());
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(10)));
  EXPECT_TRUE(is_readable(drivers[1]->fd(), 5000)) << "a REQ has come";
  // An event that is there is told by the timeout.
  ASSERT_TRUE(run_until([&] { return drivers[0]->qp(peer(1)) != nullptr; }));
  EXPECT_EQ(drivers[0]->next_timeout(), Duration(0));
  EXPECT_TRUE(drivers[0]->poll_event().has_value());
  while (is_readable(drivers[0]->fd(), 0)) {
    ASSERT_TRUE(drivers[0]->progress());
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
}

TEST_F(DriverRig, WaitEndsInTime) {
  open(2);
  const Instant start = monotonic_now();
  const auto came = drivers[0]->wait(milliseconds(50));
  ASSERT_TRUE(came);
  EXPECT_FALSE(*came);
  EXPECT_GE(monotonic_now() - start, milliseconds(50));
}

TEST_F(DriverRig, ASilentPeerFailsInTimeAndShutdownIsBounded) {
  open(2);
  // Rank 1 makes no progress.
  ASSERT_TRUE(drivers[0]->connect(peer(1), milliseconds(400)));
  const Instant start = monotonic_now();
  bool came = false;
  while (!came && monotonic_now() - start < seconds(10)) {
    const auto result = drivers[0]->wait(seconds(1));
    ASSERT_TRUE(result);
    came = *result;
  }
  const auto event = drivers[0]->poll_event();
  ASSERT_TRUE(event.has_value());
  const auto* failed = std::get_if<Failed>(&event->event);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->step, Step::Request);
  EXPECT_TRUE(failed->error.is(Errc::Timeout)) << failed->error.what();

  // Connected, and then silent: the end is bounded too.
  ASSERT_TRUE(run_until([&] {
    static_cast<void>(drivers[1]->poll_event());
    return drivers[0]->stats().conn.failed > 0;
  }));
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(10)));
  ASSERT_TRUE(run_until([&] { return drivers[1]->qp(peer(0)) != nullptr; }));
  const Instant close = monotonic_now();
  const auto done = drivers[0]->shutdown(milliseconds(800));
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.error().is(Errc::Timeout));
  EXPECT_LT(monotonic_now() - close, seconds(5));
}

TEST_F(DriverRig, ShutdownTellsThePeers) {
  open(3, with_helper_thread());
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(10)));
  ASSERT_TRUE(drivers[2]->connect(peer(0), seconds(10)));
  ASSERT_TRUE(run_until([&] { return drivers[0]->stats().ready == 2; }));
  EXPECT_TRUE(drivers[0]->shutdown(seconds(10)));
  EXPECT_TRUE(
      run_until([&] { return drivers[1]->stats().ready == 0 && drivers[2]->stats().ready == 0; }));
}

TEST_F(DriverRig, AHelperThreadAnswersWhileTheRankComputes) {
  open(2, with_helper_thread());
  // Nobody calls rank 1.
  const Instant start = monotonic_now();
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(10)));
  const auto came = drivers[0]->wait(seconds(10));
  ASSERT_TRUE(came);
  EXPECT_TRUE(*came);
  EXPECT_TRUE(std::holds_alternative<Connected>(drivers[0]->poll_event()->event));
  RecordProperty("connect_us", static_cast<int>((monotonic_now() - start).count() / 1000));
}

/// For ThreadSanitizer: every function from many threads, with the helper threads at work.
TEST_F(DriverRig, ManyThreadsOnManyContexts) {
  constexpr std::uint32_t kRanks = 4;
  constexpr int kRounds = 10;
  open(kRanks, with_helper_thread());
  std::atomic<bool> done = false;
  std::atomic<int> connected = 0;
  std::atomic<int> failed = 0;
  std::vector<std::thread> callers;
  std::vector<std::thread> waiters;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    callers.emplace_back([&, rank] {
      for (int round = 0; round < kRounds; ++round) {
        for (std::uint32_t other = 0; other < kRanks; ++other) {
          static_cast<void>(drivers[rank]->connect(peer(other), seconds(20)));
          static_cast<void>(drivers[rank]->progress());
          // The last round only connects, so that all are ready in the end.
          if (round % 3 == 2) {
            static_cast<void>(drivers[rank]->close(peer(other)));
          }
        }
      }
    });
    waiters.emplace_back([&, rank] {
      while (!done) {
        static_cast<void>(drivers[rank]->wait(milliseconds(5)));
        while (const auto event = drivers[rank]->poll_event()) {
          connected += std::holds_alternative<Connected>(event->event) ? 1 : 0;
          failed += std::holds_alternative<Failed>(event->event) ? 1 : 0;
        }
        static_cast<void>(drivers[rank]->next_timeout());
      }
    });
  }
  for (std::thread& thread : callers) {
    thread.join();
  }
  EXPECT_TRUE(run_until([&] {
    return std::all_of(drivers.begin(), drivers.end(),
                       [](const auto& driver) { return driver->stats().ready == kRanks; });
  }));
  done = true;
  for (std::thread& thread : waiters) {
    thread.join();
  }
  EXPECT_EQ(failed, 0);
  EXPECT_GE(connected, static_cast<int>(kRanks * kRanks));
}

}  // namespace
}  // namespace wireup::conn
