// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "acm/acm_fabric.hpp"
#include "support/seed.hpp"

namespace wireup::acm::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLimit = seconds(10);

/// `count` nodes at QDR and MTU 4096, joined.
std::unique_ptr<Fabric> joined_fabric(std::size_t count, const Config& config,
                                      std::uint64_t seed = 1) {
  auto fabric = std::make_unique<Fabric>(seed);
  for (std::size_t i = 0; i < count; ++i) {
    fabric->add(node_port(i, mad::kRate40, mad::kMtu4096), config);
  }
  fabric->net.run_for(milliseconds(100));
  return fabric;
}

TEST(AcmResolve, OneRequestOneResponse) {
  auto fabric = joined_fabric(3, quiet());
  fabric->group_sl = Sl(0);
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(1));
  const FabricNode& asker = *fabric->nodes[0];
  ASSERT_NE(asker.learned(node_address(1)), nullptr);
  EXPECT_TRUE(asker.learned(node_address(1))->wanted);
  EXPECT_EQ(asker.answers(node_address(1)), 1U);
  EXPECT_EQ(asker.engine.counters().requests_sent, 1U);
  EXPECT_EQ(fabric->nodes[1]->engine.counters().responses_sent, 1U);
  EXPECT_EQ(fabric->nodes[2]->engine.counters().responses_sent, 0U);
  EXPECT_EQ(asker.engine.pending(), 0U);

  const mad::PathRecord& path = asker.learned(node_address(1))->record;
  EXPECT_EQ(path.sgid, node_gid(0));
  EXPECT_EQ(path.dgid, node_gid(1));
  EXPECT_EQ(path.slid, node_lid(0));
  EXPECT_EQ(path.dlid, node_lid(1));
  EXPECT_EQ(path.pkey, PKey(0xFFFF));
  EXPECT_EQ(path.rate, mad::kRate40);
  EXPECT_EQ(path.rate_selector, mad::Selector::Exactly);
  EXPECT_EQ(path.mtu, mad::kMtu4096);
  EXPECT_EQ(path.packet_lifetime, 0x12);
  EXPECT_TRUE(path.reversible);
  EXPECT_EQ(path.hop_limit, 0);
}

TEST(AcmResolve, AGroupWithoutALifetimeGetsTheSubnets) {
  Fabric fabric(1);
  fabric.group_lifetime = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    PortIdentity port = node_port(i, mad::kRate40, mad::kMtu4096);
    port.subnet_timeout = 17;
    fabric.add(port, quiet());
  }
  fabric.net.run_for(milliseconds(100));
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  fabric.net.run_for(milliseconds(1));
  ASSERT_NE(fabric.nodes[0]->learned(node_address(1)), nullptr);
  EXPECT_EQ(fabric.nodes[0]->learned(node_address(1))->record.packet_lifetime, 17);
  // 31 is what a port says whose subnet manager set nothing: two hours.
  EXPECT_EQ(usual_lifetime(31), 18);
  EXPECT_EQ(usual_lifetime(0), 18);
}

TEST(AcmResolve, TheRequestTeachesTheTargetAndTheBystander) {
  auto fabric = joined_fabric(3, quiet());
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(1));
  for (const std::size_t hearer : {1U, 2U}) {
    const PathLearned* learned = fabric->nodes[hearer]->learned(node_address(0));
    ASSERT_NE(learned, nullptr) << hearer;
    EXPECT_FALSE(learned->wanted);
    EXPECT_EQ(learned->record.dlid, node_lid(0));
    EXPECT_EQ(learned->record.slid, node_lid(hearer));
    EXPECT_EQ(learned->record.rate, mad::kRate40);
    EXPECT_EQ(fabric->nodes[hearer]->engine.counters().snooped, 1U);
  }
  // Node 2 needs no request for node 0 any more.
  ASSERT_TRUE(fabric->resolve(2, 0, kLimit));
  EXPECT_EQ(fabric->nodes[2]->answers(node_address(0)), 1U);
  EXPECT_EQ(fabric->nodes[2]->engine.counters().requests_sent, 0U);
}

TEST(AcmResolve, PortsOfDifferentRatesMeetInGroup0) {
  Fabric fabric(1);
  fabric.add(node_port(0, mad::kRate100, mad::kMtu4096), quiet());
  fabric.add(node_port(1, mad::kRate40, mad::kMtu4096), quiet());
  fabric.net.run_for(milliseconds(100));
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  fabric.net.run_for(milliseconds(1));
  ASSERT_NE(fabric.nodes[0]->learned(node_address(1)), nullptr);
  EXPECT_EQ(fabric.nodes[0]->learned(node_address(1))->record.rate, mad::kRate10);
  EXPECT_EQ(fabric.nodes[0]->learned(node_address(1))->record.mtu, mad::kMtu2048);
}

TEST(AcmResolve, RequestsListOnlyJoinedGroupsInAscendingPreference) {
  Fabric fabric(1);
  const Gid group0 = group_mgid(PKey(0xFFFF), 0, mad::kRate10, mad::kMtu2048);
  const Gid group1 = group_mgid(PKey(0xFFFF), 0, mad::kRate40, mad::kMtu4096);
  EXPECT_EQ(group0, Gid({0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0, 3, 4}));
  EXPECT_EQ(group_mgid(PKey(0x7FFF), 0, 3, 4), group0) << "the membership bit is set in an MGID";
  fabric.add(node_port(0, mad::kRate40, mad::kMtu4096), quiet());
  fabric.refused.insert(group1);
  fabric.add(node_port(1, mad::kRate40, mad::kMtu4096), quiet());
  fabric.net.run_for(milliseconds(1));
  fabric.refused.clear();
  // Node 0 and 1 were refused once: they wait for the second answer before anything is sent.
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  EXPECT_TRUE(fabric.nodes[0]->sent.empty());
  fabric.net.run_for(seconds(1));
  ASSERT_FALSE(fabric.nodes[0]->sent.empty());
  const auto request = mad::parse_acm(fabric.nodes[0]->sent.front().bytes);
  ASSERT_TRUE(request.has_value());
  const mad::AcmGroups& groups = std::get<mad::AcmRequest>(*request).groups;
  ASSERT_EQ(groups.count, 2U);
  EXPECT_EQ(groups.gids[0], group0);
  EXPECT_EQ(groups.gids[1], group1);
  EXPECT_EQ(fabric.nodes[0]->sent.front().to.dgid, group0);
}

TEST(AcmResolve, ARefusedPortGroupIsGoneWithout) {
  Fabric fabric(1);
  fabric.refused.insert(group_mgid(PKey(0xFFFF), 0, mad::kRate40, mad::kMtu4096));
  fabric.add(node_port(0, mad::kRate40, mad::kMtu4096), quiet());
  fabric.add(node_port(1, mad::kRate40, mad::kMtu4096), quiet());
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  fabric.net.run_for(seconds(1));
  ASSERT_NE(fabric.nodes[0]->learned(node_address(1)), nullptr);
  EXPECT_EQ(fabric.nodes[0]->learned(node_address(1))->record.rate, mad::kRate10);
  // When the SA grants it at last, what was made from group 0 is void.
  fabric.refused.clear();
  fabric.net.run_for(seconds(10));
  EXPECT_EQ(fabric.nodes[0]->invalidations, 1U);
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  fabric.net.run_for(milliseconds(1));
  EXPECT_EQ(fabric.nodes[0]->learned(node_address(1))->record.rate, mad::kRate40);
}

TEST(AcmResolve, AnnouncementsSpareTheRequests) {
  auto fabric = joined_fabric(4, Config{});
  // The first announcements met peers that had not joined yet.
  fabric->net.run_for(seconds(1));
  for (std::size_t from = 0; from < 4; ++from) {
    for (std::size_t to = 0; to < 4; ++to) {
      ASSERT_TRUE(fabric->resolve(from, to, kLimit));
      EXPECT_EQ(fabric->nodes[from]->answers(node_address(to)), 1U);
    }
    EXPECT_EQ(fabric->nodes[from]->engine.counters().requests_sent, 0U);
  }
  fabric->net.run_for(seconds(5));
  EXPECT_EQ(fabric->nodes[0]->engine.counters().announcements_sent, Config{}.announcements);
}

TEST(AcmResolve, TheFirstTriesAreQuick) {
  // The switches learn of the members 200 ms after the joins, as OpenSM does it.
  Fabric fabric(1);
  fabric.mft_delay = milliseconds(200);
  fabric.add(quiet());
  fabric.add(quiet());
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  const Instant start = fabric.now();
  ASSERT_TRUE(fabric.net.run_until([&] { return fabric.nodes[0]->answers(node_address(1)) == 1; }));
  EXPECT_NE(fabric.nodes[0]->learned(node_address(1)), nullptr);
  EXPECT_LT(fabric.now() - start, milliseconds(600));
}

TEST(AcmResolve, WaitersAreWokenByWhatTheyHear) {
  auto fabric = joined_fabric(2, quiet());
  // Node 0's requests are lost; node 1 asks for something else, and node 0 hears it.
  fabric->net.set_filter([](std::size_t from, std::size_t, const Packet&) { return from == 0; });
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(seconds(1));
  EXPECT_EQ(fabric->nodes[0]->answers(node_address(1)), 0U);
  ASSERT_TRUE(fabric->resolve(1, 7, kLimit));
  fabric->net.run_for(milliseconds(1));
  EXPECT_EQ(fabric->nodes[0]->answers(node_address(1)), 1U);
  EXPECT_TRUE(fabric->nodes[0]->learned(node_address(1))->wanted);
  EXPECT_EQ(fabric->nodes[0]->engine.pending(), 0U);
}

TEST(AcmResolve, LocalAddressesNeedNoFabric) {
  Fabric fabric(1);
  fabric.sa_mode = SaMode::Silent;
  const mad::AcmAddress name = *mad::AcmAddress::name("h1");
  fabric.add(node_port(0, mad::kRate40, mad::kMtu4096), quiet(), {name});
  for (const mad::AcmAddress& address : {node_address(0), name}) {
    ASSERT_TRUE(fabric.nodes[0]->engine.resolve(address, fabric.now() + kLimit, fabric.now()));
    fabric.nodes[0]->drain(fabric.now());
    const PathLearned* learned = fabric.nodes[0]->learned(address);
    ASSERT_NE(learned, nullptr);
    EXPECT_EQ(learned->record.dlid, node_lid(0));
    EXPECT_EQ(learned->record.slid, node_lid(0));
    EXPECT_EQ(learned->record.rate, mad::kRate40);
    EXPECT_EQ(learned->record.mtu, mad::kMtu4096);
  }
}

TEST(AcmResolve, NamesAreResolvedToo) {
  Fabric fabric(1);
  const mad::AcmAddress name = *mad::AcmAddress::name("node31");
  fabric.add(quiet());
  fabric.add(node_port(1), quiet(), {name});
  fabric.net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric.nodes[0]->engine.resolve(name, fabric.now() + kLimit, fabric.now()));
  fabric.nodes[0]->drain(fabric.now());
  fabric.net.run_for(milliseconds(1));
  ASSERT_NE(fabric.nodes[0]->learned(name), nullptr);
  EXPECT_EQ(fabric.nodes[0]->learned(name)->record.dgid, node_gid(1));
}

TEST(AcmResolve, WaitsGrowAndEndAtTheDeadline) {
  auto fabric = joined_fabric(1, quiet());
  const Instant start = fabric->now();
  ASSERT_TRUE(fabric->resolve(0, 9, seconds(20)));
  ASSERT_TRUE(
      fabric->net.run_until([&] { return fabric->nodes[0]->answers(node_address(9)) == 1; }));
  EXPECT_EQ(fabric->now(), start + seconds(20));
  const PathUnresolved* failed = fabric->nodes[0]->unresolved(node_address(9));
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->reason, UnresolvedReason::NoAnswer);
  EXPECT_EQ(failed->attempts, fabric->nodes[0]->engine.counters().requests_sent);
  // 25 ms growing by 1.6 to 2 s: about 10 tries in the first 4.5 s, then one each 2 s.
  EXPECT_GE(failed->attempts, 14U);
  EXPECT_LE(failed->attempts, 24U);
}

TEST(AcmResolve, ALaterDeadlineCounts) {
  auto fabric = joined_fabric(1, quiet());
  const Instant start = fabric->now();
  ASSERT_TRUE(fabric->resolve(0, 9, seconds(1)));
  ASSERT_TRUE(fabric->resolve(0, 9, seconds(3)));
  ASSERT_TRUE(fabric->resolve(0, 9, seconds(2)));
  ASSERT_TRUE(
      fabric->net.run_until([&] { return fabric->nodes[0]->answers(node_address(9)) == 1; }));
  EXPECT_EQ(fabric->now(), start + seconds(3));
}

TEST(AcmResolve, SilenceIsRememberedShortly) {
  Config config = quiet();
  config.negative_life = seconds(1);
  auto fabric = joined_fabric(1, config);
  ASSERT_TRUE(fabric->resolve(0, 1, seconds(3)));
  ASSERT_TRUE(
      fabric->net.run_until([&] { return fabric->nodes[0]->answers(node_address(1)) == 1; }));
  const auto requests = fabric->nodes[0]->engine.counters().requests_sent;
  ASSERT_TRUE(fabric->resolve(0, 1, seconds(3)));
  EXPECT_EQ(fabric->nodes[0]->answers(node_address(1)), 2U) << "told at once";
  EXPECT_EQ(fabric->nodes[0]->unresolved(node_address(1))->reason, UnresolvedReason::Absent);
  EXPECT_EQ(fabric->nodes[0]->engine.counters().requests_sent, requests);
  // Who appears meanwhile is present at once.
  fabric->add(node_port(1, mad::kRate40, mad::kMtu4096), Config{});
  fabric->net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric->resolve(0, 1, seconds(3)));
  EXPECT_NE(fabric->nodes[0]->learned(node_address(1)), nullptr);
}

TEST(AcmResolve, AShortAskIsNoProofOfAbsence) {
  auto fabric = joined_fabric(1, quiet());
  ASSERT_TRUE(fabric->resolve(0, 1, milliseconds(100)));
  fabric->net.run_for(milliseconds(101));
  EXPECT_EQ(fabric->nodes[0]->answers(node_address(1)), 1U);
  ASSERT_TRUE(fabric->resolve(0, 1, seconds(3)));
  EXPECT_EQ(fabric->nodes[0]->answers(node_address(1)), 1U) << "asked again";
  EXPECT_EQ(fabric->nodes[0]->engine.pending(), 1U);
}

TEST(AcmResolve, DeadPeersDoNotBlockTheOthers) {
  Config config = quiet();
  config.window = 4;
  auto fabric = joined_fabric(2, config);
  for (std::size_t dead = 100; dead < 140; ++dead) {
    ASSERT_TRUE(fabric->resolve(0, dead, seconds(30)));
  }
  ASSERT_TRUE(fabric->resolve(0, 1, seconds(30)));
  const Instant start = fabric->now();
  ASSERT_TRUE(
      fabric->net.run_until([&] { return fabric->nodes[0]->answers(node_address(1)) == 1; }));
  EXPECT_NE(fabric->nodes[0]->learned(node_address(1)), nullptr);
  // 40 dead ones before it, 4 at a time, each holding its place for its first wait only.
  EXPECT_LT(fabric->now() - start, seconds(1));
}

TEST(AcmResolve, PathsExpireAndFailedOnesAreForgotten) {
  Config config = quiet();
  config.address_life = hours(1);
  auto fabric = joined_fabric(2, config);
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(1));
  EXPECT_TRUE(fabric->nodes[0]->engine.path(node_address(1)).has_value());
  fabric->nodes[0]->engine.path_failed(node_address(1));
  EXPECT_FALSE(fabric->nodes[0]->engine.path(node_address(1)).has_value());
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(1));
  EXPECT_TRUE(fabric->nodes[0]->engine.path(node_address(1)).has_value());
  fabric->net.run_for(hours(1));
  EXPECT_FALSE(fabric->nodes[0]->engine.path(node_address(1)).has_value());
  EXPECT_EQ(fabric->nodes[0]->engine.counters().expired, 1U);
  EXPECT_FALSE(fabric->nodes[0]->engine.poll_timeout().has_value()) << "a timer was left";
}

TEST(AcmResolve, WhatWasLearnedIsForgottenOnDemandAndLearnedAgain) {
  Fabric fabric(1);
  fabric.add(node_port(0, mad::kRate40, mad::kMtu4096), quiet());
  fabric.add(node_port(1, mad::kRate40, mad::kMtu4096), quiet());
  fabric.net.run_for(milliseconds(100));
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  fabric.net.run_for(milliseconds(1));
  Engine& engine = fabric.nodes[0]->engine;
  ASSERT_TRUE(engine.path(node_address(1)).has_value());
  engine.forget_learned();
  EXPECT_FALSE(engine.path(node_address(1)).has_value());
  EXPECT_EQ(engine.entries(), 0U);
  // The groups are joined still: it is asked at once.
  EXPECT_TRUE(engine.is_ready());
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  fabric.net.run_for(milliseconds(1));
  EXPECT_TRUE(engine.path(node_address(1)).has_value());
}

TEST(AcmResolve, EntriesAreBounded) {
  Config config = quiet();
  config.max_entries = 8;
  auto fabric = joined_fabric(1, config);
  for (std::size_t i = 1; i < 40; ++i) {
    fabric->add(node_port(i, mad::kRate40, mad::kMtu4096), Config{});
  }
  fabric->net.run_for(seconds(2));
  EXPECT_EQ(fabric->nodes[0]->engine.entries(), 8U);
  EXPECT_GT(fabric->nodes[0]->engine.counters().evicted, 0U);
  for (std::size_t i = 100; i < 108; ++i) {
    ASSERT_TRUE(fabric->resolve(0, i, kLimit)) << i;
  }
  const auto refused = fabric->resolve(0, 200, kLimit);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().is(Errc::Busy));
}

TEST(AcmResolve, EnginesAreValues) {
  auto fabric = joined_fabric(2, quiet());
  ASSERT_TRUE(fabric->resolve(0, 9, kLimit));
  Engine copy = fabric->nodes[0]->engine;
  EXPECT_EQ(copy, fabric->nodes[0]->engine);
  const Instant later = fabric->now() + seconds(1);
  copy.handle_timeout(later);
  EXPECT_NE(copy, fabric->nodes[0]->engine);
  fabric->nodes[0]->engine.handle_timeout(later);
  EXPECT_EQ(copy, fabric->nodes[0]->engine);
}

}  // namespace
}  // namespace wireup::acm::test
