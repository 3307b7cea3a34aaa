// SPDX-License-Identifier: BSD-3-Clause
// The asynchronous mode: what is late, what keeps its order, and what a program may find out by it.
#include "softhca/hca/asynchrony.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "softhca/hca/rig.hpp"

namespace softhca::test {
namespace {

using hca::Asynchrony;
using hca::Wait;

constexpr std::uint32_t kLongUs = 400'000;
constexpr std::uint64_t kLateNs = 200'000'000;

/// A mode in which the first request of `end`'s queue pair waits at least kLateNs.
Asynchrony late_first(const End& end, std::uint32_t hca) {
  Asynchrony mode{true, kLongUs, 1};
  while (hca::drawn_delay_ns(mode, Wait::Execution, hca, end.qp->number(), 0) < kLateNs) {
    ++mode.seed;
  }
  return mode;
}

class Async : public Rig {
 protected:
  void start(const Asynchrony& mode) { h1_->faults().set_asynchrony(mode); }
  [[nodiscard]] std::uint32_t hca_of(const End& end) const {
    return h1_->view().port(end.ports[0]).hca_index;
  }
};

TEST(AsyncDraws, FollowTheSeedAndStayInRange) {
  const Asynchrony mode{true, 100, 7};
  const Asynchrony other{true, 100, 8};
  std::uint64_t longest = 0;
  int differ = 0;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    const std::uint64_t drawn = hca::drawn_delay_ns(mode, Wait::Execution, 0, 72, n);
    EXPECT_EQ(drawn, hca::drawn_delay_ns(mode, Wait::Execution, 0, 72, n));
    longest = std::max(longest, drawn);
    differ += drawn != hca::drawn_delay_ns(other, Wait::Execution, 0, 72, n) ? 1 : 0;
    differ += drawn != hca::drawn_delay_ns(mode, Wait::Execution, 0, 73, n) ? 1 : 0;
    differ += drawn != hca::drawn_delay_ns(mode, Wait::Completion, 0, 72, n) ? 1 : 0;
  }
  EXPECT_LE(longest, 100'000U);
  EXPECT_GT(longest, 80'000U);
  EXPECT_GT(differ, 2900);
  EXPECT_EQ(hca::drawn_delay_ns({true, 0, 1}, Wait::Wire, 0, 72, 5), 0U);
}

TEST_F(Async, ARequestIsExecutedAfterPostingAndReadsItsMemoryThen) {
  const auto a = on_h1({});
  const auto b = on_h2({});
  connect(*a, *b);
  ASSERT_EQ(b->post_recv(1, 0, 64), 0);
  ASSERT_EQ(b->post_recv(2, 64, 64), 0);
  start(late_first(*a, hca_of(*a)));
  a->buffer[0] = 1;
  ASSERT_EQ(a->post_send(10, 0, 8), 0);
  ASSERT_EQ(a->post_send(11, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  EXPECT_TRUE(b->nothing());
  EXPECT_TRUE(a->nothing());
  a->buffer[0] = 2;  // too early: the program did not wait for the completion
  ASSERT_EQ(b->wait().value_or(ibv_wc{}).wr_id, 1U);
  ASSERT_EQ(b->wait().value_or(ibv_wc{}).wr_id, 2U);
  EXPECT_EQ(b->buffer[0], 2);
  EXPECT_EQ(b->buffer[64], 1);  // inline data were taken when posted
  EXPECT_EQ(a->wait().value_or(ibv_wc{}).wr_id, 10U);
  EXPECT_EQ(a->wait().value_or(ibv_wc{}).wr_id, 11U);
}

TEST_F(Async, AQueuePairKeepsItsOrder) {
  const auto a = on_h1({.send_wr = 64, .recv_wr = 64});
  const auto b = on_h2({.send_wr = 64, .recv_wr = 64});
  connect(*a, *b);
  start({true, 500, 3});
  for (std::uint64_t round = 0; round < 4; ++round) {
    for (std::uint64_t i = 0; i < 32; ++i) {
      ASSERT_EQ(b->post_recv(i, i * 8, 8), 0);
    }
    for (std::uint64_t i = 0; i < 32; ++i) {
      a->buffer[i * 8] = static_cast<std::uint8_t>(round * 32 + i);
      ASSERT_EQ(a->post_send(i, i * 8, 8), 0);
    }
    for (std::uint64_t i = 0; i < 32; ++i) {
      ASSERT_EQ(b->wait().value_or(ibv_wc{}).wr_id, i);
      ASSERT_EQ(a->wait().value_or(ibv_wc{}).wr_id, i);
      ASSERT_EQ(b->buffer[i * 8], static_cast<std::uint8_t>(round * 32 + i));
    }
  }
}

TEST_F(Async, ThePeersAnswerMayPrecedeTheCompletion) {
  // Of a ping-pong with many seeds: at least once the answer is there while the question's send is
  // not complete, at least once it is the other way round.
  const auto a = on_h1({});
  const auto b = on_h2({});
  connect(*a, *b);
  bool answer_first = false;
  bool completion_first = false;
  for (std::uint64_t seed = 1; seed <= 200 && !(answer_first && completion_first); ++seed) {
    start({true, 2000, seed});
    ASSERT_EQ(b->post_recv(1, 0, 8), 0);
    ASSERT_EQ(a->post_recv(2, 0, 8), 0);
    ASSERT_EQ(a->post_send(3, 64, 8), 0);
    ASSERT_EQ(b->wait().value_or(ibv_wc{}).wr_id, 1U);
    ASSERT_EQ(b->post_send(4, 64, 8), 0);
    const std::uint64_t first = a->wait().value_or(ibv_wc{}).wr_id;
    (first == 2 ? answer_first : completion_first) = true;
    ASSERT_EQ(a->wait().value_or(ibv_wc{}).wr_id, first == 2 ? 3U : 2U);
    ASSERT_EQ(b->wait().value_or(ibv_wc{}).wr_id, 4U);
  }
  EXPECT_TRUE(answer_first);
  EXPECT_TRUE(completion_first);
}

TEST_F(Async, DrainingWaitsForWhatWasStartedAndNothingElse) {
  const auto a = on_h1({});
  const auto b = on_h2({});
  connect(*a, *b);
  // No receive: the first request is started and gets receiver-not-ready; the second has to wait.
  ASSERT_EQ(a->post_send(1, 0, 8), 0);
  ASSERT_EQ(a->post_send(2, 0, 8), 0);
  ibv_qp_attr drain{};
  drain.qp_state = IBV_QPS_SQD;
  drain.en_sqd_async_notify = 1;
  ASSERT_EQ(a->qp->modify(drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  EXPECT_FALSE(a->event().has_value());
  ibv_qp_attr now{};
  a->qp->query(now);
  EXPECT_EQ(now.sq_draining, 1);
  ASSERT_EQ(b->post_recv(1, 0, 64), 0);
  ASSERT_EQ(b->post_recv(2, 0, 64), 0);
  ASSERT_EQ(a->wait().value_or(ibv_wc{}).wr_id, 1U);
  EXPECT_EQ(wait_event(*a), IBV_EVENT_SQ_DRAINED);
  a->qp->query(now);
  EXPECT_EQ(now.sq_draining, 0);
  EXPECT_TRUE(a->nothing());
  ASSERT_EQ(a->move(IBV_QPS_RTS), 0);
  ASSERT_EQ(a->wait().value_or(ibv_wc{}).wr_id, 2U);
}

TEST_F(Async, AnErrorFlushesWhatThePeerMayHave) {
  const auto a = on_h1({});
  const auto b = on_h2({});
  connect(*a, *b);
  ASSERT_EQ(b->post_recv(1, 0, 64), 0);
  // The first request is executed soon and completed late.
  Asynchrony mode{true, kLongUs, 1};
  const std::uint32_t hca = hca_of(*a);
  while (hca::drawn_delay_ns(mode, Wait::Execution, hca, a->qp->number(), 0) > 10'000'000 ||
         hca::drawn_delay_ns(mode, Wait::Completion, hca, a->qp->number(), 1) < kLateNs) {
    ++mode.seed;
  }
  start(mode);
  a->buffer[0] = 0x77;
  ASSERT_EQ(a->post_send(10, 0, 8), 0);
  ASSERT_EQ(b->wait().value_or(ibv_wc{}).wr_id, 1U);
  EXPECT_EQ(b->buffer[0], 0x77);
  ASSERT_EQ(a->move(IBV_QPS_ERR), 0);
  const auto flushed = a->wait();
  ASSERT_TRUE(flushed.has_value());
  EXPECT_EQ(flushed->status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(a->post_send(11, 0, 8), 0);
  EXPECT_EQ(a->wait().value_or(ibv_wc{}).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Async, DatagramsOfOnePathKeepTheirOrder) {
  const auto a = on_h1({.type = IBV_QPT_UD, .send_wr = 64, .recv_wr = 64});
  const auto b = on_h2({.type = IBV_QPT_UD, .send_wr = 64, .recv_wr = 64});
  connect(*a, *b);
  hca::AddressHandle ah;
  ah.av.attr.dlid = b->lid;
  ah.av.attr.port_num = 1;
  ah.av.pd = kPd;
  start({true, 500, 5});
  for (std::uint64_t i = 0; i < 32; ++i) {
    ASSERT_EQ(b->post_recv(i, i * 64, 64), 0);
  }
  for (std::uint64_t i = 0; i < 32; ++i) {
    a->buffer[i] = static_cast<std::uint8_t>(i);
    ibv_send_wr wr{};
    wr.wr_id = i;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = &ah.base;
    wr.wr.ud.remote_qpn = b->qp->number();
    wr.wr.ud.remote_qkey = b->moves.init.qkey;
    ASSERT_EQ(a->post(wr, i, 1), 0);
  }
  for (std::uint64_t i = 0; i < 32; ++i) {
    ASSERT_EQ(b->wait().value_or(ibv_wc{}).wr_id, i);
    ASSERT_EQ(b->buffer[i * 64 + 40], i);
    ASSERT_EQ(a->wait().value_or(ibv_wc{}).wr_id, i);
  }
}

}  // namespace
}  // namespace softhca::test
