// SPDX-License-Identifier: BSD-3-Clause
// Fault rules: what they match, and what they do to datagrams, requests and limits.
#include "softhca/hca/fault_rules.hpp"

#include <bit>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "softhca/hca/rig.hpp"

namespace softhca::test {
namespace {

constexpr std::size_t kPage = 4096;

using hca::FaultRule;
using hca::RuleKind;
using hca::Traffic;

TEST(RuleMatching, EveryConditionThatIsSetMustHold) {
  FaultRule rule;
  rule.src = {1, {3}};
  rule.dst = {2, {4, 5}};
  rule.dst_qpn = 72;
  const Traffic fits{.from = 3, .to = 5, .src_qpn = 99, .dst_qpn = 72};
  EXPECT_TRUE(rule_matches(rule, fits));
  Traffic other = fits;
  other.from = 4;
  EXPECT_FALSE(rule_matches(rule, other));
  other = fits;
  other.to = kNoPort;
  EXPECT_FALSE(rule_matches(rule, other));
  other = fits;
  other.dst_qpn = 73;
  EXPECT_FALSE(rule_matches(rule, other));
  EXPECT_TRUE(rule_matches(FaultRule{}, other));
  other.arriving = true;  // asked once more at each port of a multicast: only for rules with a dst
  EXPECT_FALSE(rule_matches(FaultRule{}, other));
}

TEST(RuleMatching, DrawsTheNthEachNthOrByChance) {
  FaultRule rule;
  rule.nth = 3;
  EXPECT_FALSE(rule_draws(rule, 2));
  EXPECT_TRUE(rule_draws(rule, 3));
  EXPECT_FALSE(rule_draws(rule, 6));
  rule.nth = 0;
  rule.every = 3;
  EXPECT_TRUE(rule_draws(rule, 6));
  EXPECT_FALSE(rule_draws(rule, 7));
  rule.every = 0;
  rule.chance_ppm = 250'000;
  int hits = 0;
  for (std::uint64_t n = 1; n <= 10'000; ++n) {
    hits += rule_draws(rule, n) ? 1 : 0;
    EXPECT_EQ(rule_draws(rule, n), rule_draws(rule, n));
  }
  EXPECT_NEAR(hits, 2500, 250);
}

class FaultRules : public Rig {
 protected:
  void add(const FaultRule& rule) { ASSERT_TRUE(h2_->faults().add(rule)); }

  /// Sends one datagram of `length` bytes from `a` to `b`.
  void send_datagram(End& a, const End& b, std::uint64_t id, std::uint32_t length) {
    handle_.av.attr.dlid = b.lid;
    handle_.av.attr.port_num = 1;
    handle_.av.pd = kPd;
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = &handle_.base;
    wr.wr.ud.remote_qpn = b.qp->number();
    wr.wr.ud.remote_qkey = b.moves.init.qkey;
    ASSERT_EQ(a.post(wr, 0, length), 0);
    ASSERT_EQ(a.wait().value_or(ibv_wc{}).status, IBV_WC_SUCCESS);
  }

  hca::AddressHandle handle_;
};

TEST_F(FaultRules, TheNthDatagramToOneQueuePairIsLost) {
  const auto a = on_h1({.type = IBV_QPT_UD});
  const auto b = on_h2({.type = IBV_QPT_UD});
  const auto c = on_h2({.type = IBV_QPT_UD});
  connect(*a, *b);
  ASSERT_EQ(c->init(), 0);
  ASSERT_EQ(c->rtr(*a), 0);
  FaultRule rule;
  rule.kind = RuleKind::UdDrop;
  rule.dst = {1, {b->ports[0]}};
  rule.dst_qpn = b->qp->number();
  rule.nth = 2;
  add(rule);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    ASSERT_EQ(b->post_recv(i, 0, 64), 0);
    ASSERT_EQ(c->post_recv(i, 0, 64), 0);
  }
  for (std::uint32_t i = 1; i <= 3; ++i) {
    send_datagram(*a, *b, i, i);
    send_datagram(*a, *c, i, i);
  }
  EXPECT_EQ(b->wait().value_or(ibv_wc{}).byte_len, 40U + 1);
  EXPECT_EQ(b->wait().value_or(ibv_wc{}).byte_len, 40U + 3);
  for (std::uint32_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(c->wait().value_or(ibv_wc{}).byte_len, 40U + i);
  }
  EXPECT_EQ(counted(Counter::UdDroppedFault), 1U);
  const auto reports = h1_->faults().rules();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].matched, 3U);
  EXPECT_EQ(reports[0].hit, 1U);
}

TEST_F(FaultRules, ACorruptedDatagramDiffersInOneBit) {
  const auto a = on_h1({.type = IBV_QPT_UD});
  const auto b = on_h2({.type = IBV_QPT_UD});
  connect(*a, *b);
  FaultRule rule;
  rule.kind = RuleKind::UdCorrupt;
  rule.count = 1;
  add(rule);
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(b->post_recv(1, 0, 1064), 0);
    send_datagram(*a, *b, 1, 1000);
    ASSERT_EQ(b->wait().value_or(ibv_wc{}).byte_len, 1040U);
    int differ = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
      differ += std::popcount(static_cast<std::uint8_t>(a->buffer[i] ^ b->buffer[40 + i]));
    }
    EXPECT_EQ(differ, round == 0 ? 1 : 0);
  }
}

TEST_F(FaultRules, ADelayedDatagramIsOvertaken) {
  const auto a = on_h1({.type = IBV_QPT_UD});
  const auto b = on_h2({.type = IBV_QPT_UD});
  connect(*a, *b);
  FaultRule rule;
  rule.kind = RuleKind::UdDelay;
  rule.delay_us = 300'000;
  rule.nth = 1;
  add(rule);
  ASSERT_EQ(b->post_recv(1, 0, 64), 0);
  ASSERT_EQ(b->post_recv(2, 0, 64), 0);
  const auto sent = std::chrono::steady_clock::now();
  send_datagram(*a, *b, 1, 1);
  send_datagram(*a, *b, 2, 2);
  EXPECT_EQ(b->wait().value_or(ibv_wc{}).byte_len, 40U + 2);
  EXPECT_EQ(b->wait().value_or(ibv_wc{}).byte_len, 40U + 1);
  EXPECT_GE(std::chrono::steady_clock::now() - sent, std::chrono::milliseconds(300));
}

TEST_F(FaultRules, AWayThatIsBrokenForthLosesTheRequest) {
  const auto a = on_h1({});
  const auto b = on_h2({});
  connect(*a, *b);
  FaultRule rule;
  rule.kind = RuleKind::Break;
  rule.src = {1, {a->ports[0]}};
  rule.dst = {1, {b->ports[0]}};
  add(rule);
  ASSERT_EQ(b->post_recv(1, 0, 64), 0);
  ASSERT_EQ(a->post_send(1, 0, 8), 0);
  EXPECT_EQ(a->wait().value_or(ibv_wc{}).status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(b->nothing());
  EXPECT_EQ(b->qp->state(), IBV_QPS_RTS);
}

TEST_F(FaultRules, AWayThatIsBrokenBackLosesTheAcknowledgementOnly) {
  const auto a = on_h1({});
  const auto b = on_h2({});
  connect(*a, *b);
  FaultRule rule;
  rule.kind = RuleKind::Break;
  rule.src = {1, {b->ports[0]}};
  rule.dst = {1, {a->ports[0]}};
  add(rule);
  a->buffer[0] = 0x42;
  ASSERT_EQ(b->post_recv(1, 0, 64), 0);
  ASSERT_EQ(b->post_recv(2, 0, 64), 0);
  ASSERT_EQ(a->post_send(1, 0, 8), 0);
  EXPECT_EQ(b->wait().value_or(ibv_wc{}).wr_id, 1U);
  EXPECT_EQ(b->buffer[0], 0x42);
  EXPECT_EQ(a->wait().value_or(ibv_wc{}).status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(b->nothing());  // repeated, but not delivered twice
}

TEST_F(FaultRules, ALostAcknowledgementIsMadeUpForByARetry) {
  const auto a = on_h1({});
  const auto b = on_h2({});
  a->moves.rts.timeout = 20;  // seconds
  connect(*a, *b);
  FaultRule rule;
  rule.kind = RuleKind::Break;
  rule.src = {1, {b->ports[0]}};
  rule.count = 3;
  add(rule);
  std::uint64_t value = 5;
  std::memcpy(b->buffer.data(), &value, sizeof value);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.atomic.remote_addr = b->address();
  wr.wr.atomic.rkey = b->region->key();
  wr.wr.atomic.compare_add = 2;
  ASSERT_EQ(a->post(wr, 64, sizeof value), 0);
  EXPECT_EQ(a->wait().value_or(ibv_wc{}).status, IBV_WC_SUCCESS);
  std::memcpy(&value, b->buffer.data(), sizeof value);
  EXPECT_EQ(value, 7U);  // added once
  std::memcpy(&value, a->buffer.data() + 64, sizeof value);
  EXPECT_EQ(value, 5U);
}

TEST_F(FaultRules, AStalledRequestOutlivesItsTimers) {
  const auto a = on_h1({});
  const auto b = on_h2({});
  connect(*a, *b);
  FaultRule rule;
  rule.kind = RuleKind::Stall;
  rule.src = {1, {a->ports[0]}};
  add(rule);
  ASSERT_EQ(b->post_recv(1, 0, 64), 0);
  ASSERT_EQ(a->post_send(1, 0, 8), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // patience: three times 1 ms
  EXPECT_TRUE(a->nothing());
  EXPECT_TRUE(b->nothing());
  h1_->faults().clear_rules();
  EXPECT_EQ(a->wait().value_or(ibv_wc{}).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b->wait().value_or(ibv_wc{}).status, IBV_WC_SUCCESS);
}

TEST_F(FaultRules, TheNthRequestEndsInTheErrorThatWasAskedFor) {
  const auto a = on_h1({});
  const auto b = on_h2({});
  connect(*a, *b);
  FaultRule rule;
  rule.kind = RuleKind::Error;
  rule.code = IBV_WC_REM_OP_ERR;
  rule.nth = 2;
  add(rule);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    ASSERT_EQ(b->post_recv(i, 0, 64), 0);
    ASSERT_EQ(a->post_send(i, 0, 8), 0);
  }
  EXPECT_EQ(a->wait().value_or(ibv_wc{}).status, IBV_WC_SUCCESS);
  EXPECT_EQ(a->wait().value_or(ibv_wc{}).status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(a->wait().value_or(ibv_wc{}).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a->qp->state(), IBV_QPS_ERR);
  EXPECT_EQ(b->wait().value_or(ibv_wc{}).wr_id, 1U);
  EXPECT_TRUE(b->nothing());
}

TEST_F(FaultRules, LoweredLimitsOfOneHost) {
  const auto a = on_h1({});
  const auto b = on_h2({});
  FaultRule rule;
  rule.kind = RuleKind::Limit;
  rule.what = static_cast<std::uint32_t>(hca::Limit::Qps);
  rule.value = 1;
  rule.src = {1, {a->ports[0]}};
  add(rule);
  int error = 0;
  EXPECT_EQ(hca::Qp::create(*h1_, a->qp->init(), error), nullptr);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_NE(hca::Qp::create(*h2_, b->qp->init(), error), nullptr);
  h1_->faults().clear_rules();
  EXPECT_NE(hca::Qp::create(*h1_, a->qp->init(), error), nullptr);

  rule.what = static_cast<std::uint32_t>(hca::Limit::Memory);
  rule.value = (h1_->memlock().pages() + 2) * kPage;
  add(rule);
  hca::RegionSpec spec;
  spec.pd = kPd;
  const std::unique_ptr<void, void (*)(void*)> pages(std::aligned_alloc(kPage, 3 * kPage),
                                                     std::free);
  spec.address = reinterpret_cast<std::uint64_t>(pages.get());
  spec.length = 3 * kPage;
  EXPECT_EQ(hca::MemoryRegion::create(*h1_, spec, error), nullptr);
  EXPECT_EQ(error, ENOMEM);
  spec.length = 2 * kPage;
  EXPECT_NE(hca::MemoryRegion::create(*h1_, spec, error), nullptr);
}

TEST_F(FaultRules, ThereAreSoManyAndNoMore) {
  for (std::size_t i = 0; i < hca::kMaxRules; ++i) {
    add({});
  }
  EXPECT_FALSE(h1_->faults().add({}));
  h1_->faults().clear_rules();
  EXPECT_TRUE(h1_->faults().rules().empty());
  add({});
}

}  // namespace
}  // namespace softhca::test
