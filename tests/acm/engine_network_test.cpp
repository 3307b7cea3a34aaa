// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "acm/acm_fabric.hpp"
#include "support/seed.hpp"

namespace wireup::acm::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// All ask for all at once; every question must be answered, with a path.
void all_to_all(Fabric& fabric, std::size_t count, Duration limit) {
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      ASSERT_TRUE(fabric.resolve(from, to, limit));
    }
  }
  fabric.net.run_for(limit);
  for (std::size_t from = 0; from < count; ++from) {
    EXPECT_EQ(fabric.nodes[from]->engine.pending(), 0U);
    for (std::size_t to = 0; to < count; ++to) {
      ASSERT_EQ(fabric.nodes[from]->answers(node_address(to)), 1U) << from << " asks for " << to;
      const PathLearned* learned = fabric.nodes[from]->learned(node_address(to));
      ASSERT_NE(learned, nullptr) << from << " has no path to " << to;
      EXPECT_EQ(learned->record.dlid, node_lid(to));
      EXPECT_EQ(learned->record.slid, node_lid(from));
    }
  }
}

TEST(AcmNetwork, AllToAllWithLossDuplicatesAndReordering) {
  const std::uint64_t rounds = wireup::test::rounds(5);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Fabric fabric(wireup::test::seed(1) + round);
    fabric.net.set_faults({.loss_percent = 20,
                           .duplicate_percent = 10,
                           .reorder_percent = 20,
                           .reorder_delay = milliseconds(60)});
    fabric.mft_delay = milliseconds(150);
    for (std::size_t i = 0; i < 16; ++i) {
      fabric.add(quiet());
    }
    all_to_all(fabric, 16, seconds(30));
  }
}

TEST(AcmNetwork, SixtyNodesWithLoss) {
  Fabric fabric(wireup::test::seed(7));
  fabric.net.set_faults({.loss_percent = 20, .duplicate_percent = 10});
  for (std::size_t i = 0; i < 60; ++i) {
    fabric.add(Config{});
  }
  all_to_all(fabric, 60, seconds(30));
  std::uint64_t multicasts = 0;
  for (const auto& node : fabric.nodes) {
    multicasts +=
        node->engine.counters().requests_sent + node->engine.counters().announcements_sent;
  }
  // 3,540 pairs; who was heard once is known to all that heard it, so few need asking.
  EXPECT_LT(multicasts, 1200U);
}

TEST(AcmNetwork, NodesThatComeLate) {
  Fabric fabric(wireup::test::seed(3));
  fabric.net.set_faults({.loss_percent = 20});
  fabric.add(Config{});
  ASSERT_TRUE(fabric.resolve(0, 1, seconds(30)));
  fabric.net.run_for(seconds(10));
  EXPECT_EQ(fabric.nodes[0]->answers(node_address(1)), 0U);
  const Instant start = fabric.now();
  fabric.add(Config{});
  ASSERT_TRUE(fabric.net.run_until([&] { return fabric.nodes[0]->answers(node_address(1)) == 1; }));
  EXPECT_NE(fabric.nodes[0]->learned(node_address(1)), nullptr);
  // Its announcements are heard long before the next try, which is up to 2.5 s away.
  EXPECT_LT(fabric.now() - start, seconds(1));
}

TEST(AcmNetwork, TwoRespondersForOneName) {
  Fabric fabric(1);
  const mad::AcmAddress name = *mad::AcmAddress::name("twin");
  fabric.add(quiet());
  fabric.add(node_port(1), quiet(), {name});
  fabric.add(node_port(2), quiet(), {name});
  fabric.net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric.nodes[0]->engine.resolve(name, fabric.now() + seconds(5), fabric.now()));
  fabric.nodes[0]->drain(fabric.now());
  fabric.net.run_for(seconds(5));
  EXPECT_EQ(fabric.nodes[0]->answers(name), 1U);
  ASSERT_NE(fabric.nodes[0]->learned(name), nullptr);
  EXPECT_EQ(fabric.nodes[0]->engine.counters().responses_received, 2U);
  EXPECT_EQ(fabric.nodes[0]->engine.counters().drops(Drop::UnknownTid), 1U)
      << "the second answer changes nothing";
}

TEST(AcmNetwork, ARestartedServiceKeepsItsPath) {
  Fabric fabric(1);
  fabric.add(quiet());
  fabric.add(quiet());
  fabric.net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric.resolve(0, 1, seconds(5)));
  fabric.net.run_for(milliseconds(1));
  // Node 1's service is a new process: another queue pair, the same port.
  PortIdentity port = node_port(1);
  port.qpn = Qpn(0x999);
  fabric.nodes[1]->engine = Engine(Config{}, port, Rng(9), fabric.now());
  fabric.nodes[1]->drain(fabric.now());
  fabric.net.run_for(seconds(1));
  EXPECT_EQ(fabric.nodes[0]->engine.counters().restarts, 1U);
  ASSERT_TRUE(fabric.nodes[0]->engine.path(node_address(1)).has_value());
  EXPECT_EQ(fabric.nodes[0]->engine.path(node_address(1))->dlid, node_lid(1));
}

TEST(AcmNetwork, APeerThatMovesIsFollowed) {
  Fabric fabric(1);
  fabric.add(quiet());
  fabric.add(quiet());
  fabric.net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric.resolve(0, 1, seconds(5)));
  fabric.net.run_for(milliseconds(1));
  PortIdentity port = node_port(1);
  port.lid = Lid(77);
  fabric.nodes[1]->engine.port_changed(port, fabric.now());
  fabric.nodes[1]->drain(fabric.now());
  fabric.net.run_for(milliseconds(10));
  EXPECT_EQ(fabric.nodes[1]->invalidations, 1U);
  ASSERT_TRUE(fabric.resolve(1, 9, seconds(1)));
  fabric.net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric.nodes[0]->engine.path(node_address(1)).has_value());
  EXPECT_EQ(fabric.nodes[0]->engine.path(node_address(1))->dlid, Lid(77));
}

TEST(AcmNetwork, WhatIsAskedSurvivesAPortChange) {
  Fabric fabric(1);
  fabric.add(quiet());
  fabric.net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric.resolve(0, 1, seconds(20)));
  fabric.net.run_for(milliseconds(10));
  PortIdentity port = node_port(0);
  port.lid = Lid(50);
  fabric.nodes[0]->engine.port_changed(port, fabric.now());
  fabric.nodes[0]->drain(fabric.now());
  EXPECT_EQ(fabric.nodes[0]->engine.pending(), 1U);
  fabric.add(quiet());
  ASSERT_TRUE(fabric.net.run_until([&] { return fabric.nodes[0]->answers(node_address(1)) == 1; }));
  ASSERT_NE(fabric.nodes[0]->learned(node_address(1)), nullptr);
  EXPECT_EQ(fabric.nodes[0]->learned(node_address(1))->record.slid, Lid(50));
}

TEST(AcmNetwork, WithoutASubnetManagerRequestsFailWithThatReason) {
  Fabric fabric(1);
  fabric.sa_mode = SaMode::Silent;
  fabric.add(quiet());
  fabric.add(quiet());
  const Instant start = fabric.now();
  ASSERT_TRUE(fabric.resolve(0, 1, seconds(60)));
  ASSERT_TRUE(fabric.net.run_until([&] { return fabric.nodes[0]->answers(node_address(1)) == 1; }));
  EXPECT_LT(fabric.now() - start, seconds(9));
  EXPECT_EQ(fabric.nodes[0]->unresolved(node_address(1))->reason, UnresolvedReason::NotJoined);
  ASSERT_TRUE(fabric.resolve(0, 1, seconds(60)));
  EXPECT_EQ(fabric.nodes[0]->answers(node_address(1)), 2U) << "known by now: told at once";
  // It starts: all is well without anyone's doing.
  fabric.sa_mode = SaMode::Answering;
  fabric.net.run_for(seconds(10));
  ASSERT_TRUE(fabric.resolve(0, 1, seconds(60)));
  fabric.net.run_for(milliseconds(10));
  EXPECT_NE(fabric.nodes[0]->learned(node_address(1)), nullptr);
}

TEST(AcmNetwork, AShortDeadlineBeforeTheJoinNamesTheJoin) {
  Fabric fabric(1);
  fabric.sa_mode = SaMode::Silent;
  fabric.add(quiet());
  ASSERT_TRUE(fabric.resolve(0, 1, seconds(1)));
  fabric.net.run_for(milliseconds(1001));
  ASSERT_EQ(fabric.nodes[0]->answers(node_address(1)), 1U);
  EXPECT_EQ(fabric.nodes[0]->unresolved(node_address(1))->reason, UnresolvedReason::NotJoined);
}

TEST(AcmNetwork, ForgottenMembershipsAreJoinedAgain) {
  Fabric fabric(1);
  fabric.add(quiet());
  fabric.add(quiet());
  fabric.net.run_for(seconds(20));
  // A new subnet manager knows of no member.
  fabric.members.clear();
  const std::size_t before = fabric.joins_asked;
  ASSERT_TRUE(fabric.resolve(0, 1, seconds(30)));
  ASSERT_TRUE(fabric.resolve(1, 0, seconds(30)));
  fabric.net.run_for(seconds(30));
  EXPECT_NE(fabric.nodes[0]->learned(node_address(1)), nullptr);
  EXPECT_NE(fabric.nodes[1]->learned(node_address(0)), nullptr);
  EXPECT_GE(fabric.joins_asked, before + 2);
  EXPECT_LE(fabric.joins_asked, before + 8) << "joining again is bounded";
}

TEST(AcmNetwork, AWrongJoinReplyIsAFailedJoin) {
  Fabric fabric(1);
  fabric.sa_mode = SaMode::Silent;
  Engine engine(Config{}, node_port(0), Rng(1), fabric.now());
  const auto command = engine.poll_join(fabric.now());
  ASSERT_TRUE(command.has_value());
  mad::McMemberRecord reply = command->record;
  reply.mlid = Lid(0x1234);  // not a multicast LID
  engine.handle_join_reply(reply, fabric.now());
  EXPECT_FALSE(engine.is_ready());
  EXPECT_EQ(engine.counters().joins_failed, 1U);
  // Late, foreign and repeated replies are nothing.
  reply.mlid = Lid(0xC001);
  engine.handle_join_reply(reply, fabric.now());
  EXPECT_FALSE(engine.is_ready());
  const Instant due = *engine.poll_timeout();
  ASSERT_TRUE(engine.poll_join(due).has_value());
  engine.handle_join_reply(reply, due);
  EXPECT_TRUE(engine.is_ready());
}

TEST(AcmNetwork, JoinCommandIsWhatOthersSend) {
  Engine engine(Config{}, node_port(0, mad::kRate100, mad::kMtu4096), Rng(1), Instant());
  const auto first = engine.poll_join(Instant());
  const auto second = engine.poll_join(Instant());
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_FALSE(engine.poll_join(Instant()).has_value());
  EXPECT_EQ(first->component_mask, 0x1B3F7U);
  EXPECT_EQ(first->record.mgid, Gid({0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0, 3, 4}));
  EXPECT_EQ(second->record.mgid, Gid({0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0, 16, 5}));
  EXPECT_EQ(first->record.port_gid, node_gid(0));
  EXPECT_EQ(first->record.qkey, QKey(0x80010000));
  EXPECT_EQ(first->record.scope, 5);
  EXPECT_EQ(first->record.join_state, 1);
  EXPECT_EQ(first->record.rate_selector, mad::Selector::Exactly);
}

}  // namespace
}  // namespace wireup::acm::test
