// SPDX-License-Identifier: BSD-3-Clause
//
// route_prot sa: who has an address comes from multicast, the path to it from the SA.
#include <gtest/gtest.h>

#include "acm/acm_fabric.hpp"

namespace wireup::acm::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLimit = seconds(10);

Config sa_config() {
  Config config = quiet();
  config.route_protocol = RouteProtocol::Sa;
  return config;
}

std::unique_ptr<Fabric> joined_fabric(std::size_t count, const Config& config = sa_config()) {
  auto fabric = std::make_unique<Fabric>(1);
  for (std::size_t i = 0; i < count; ++i) {
    fabric->add(config);
  }
  fabric->net.run_for(milliseconds(100));
  return fabric;
}

TEST(AcmRoute, ThePathIsTheSas) {
  auto fabric = joined_fabric(2);
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  const PathLearned* learned = fabric->nodes[0]->learned(node_address(1));
  ASSERT_NE(learned, nullptr);
  EXPECT_EQ(fabric->nodes[0]->answers(node_address(1)), 1U);
  EXPECT_TRUE(learned->wanted);
  EXPECT_EQ(learned->origin, PathOrigin::SaQuery);
  EXPECT_EQ(learned->record.sl, kSaPathSl);
  EXPECT_EQ(learned->record.rate, mad::kRate100);
  EXPECT_EQ(learned->record.dlid, node_lid(1));
}

TEST(AcmRoute, TheQueryNamesBothEndsAndAsksForOneReversiblePath) {
  auto fabric = joined_fabric(2);
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  ASSERT_EQ(fabric->nodes[0]->queries.size(), 1U);
  const PathQuery& query = fabric->nodes[0]->queries[0];
  EXPECT_EQ(query.component_mask, (1U << 2) | (1U << 3) | (1U << 11) | (1U << 12) | (1U << 13));
  std::array<std::uint8_t, mad::PathRecord::kSize> bytes{};
  mad::serialize(query.record, bytes);
  std::array<std::uint8_t, mad::PathRecord::kSize> expected{};
  expected[8] = 0xFE;  // DGID
  expected[9] = 0x80;
  expected[22] = 0x10;
  expected[23] = 0x01;
  expected[24] = 0xFE;  // SGID
  expected[25] = 0x80;
  expected[38] = 0x10;
  expected[49] = 0x81;  // reversible, one path
  expected[50] = 0xFF;  // P_Key
  expected[51] = 0xFF;
  EXPECT_EQ(bytes, expected);
}

TEST(AcmRoute, AnAnswerDoesNotWaitForTheSa) {
  auto fabric = joined_fabric(2);
  // The SA is dead for paths: both learn who is where, and the target has answered.
  fabric->path_mode = SaMode::Silent;
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(1));
  EXPECT_EQ(fabric->nodes[1]->engine.counters().responses_sent, 1U);
  EXPECT_TRUE(fabric->nodes[1]->queries.empty()) << "it wants no path itself";
  EXPECT_EQ(fabric->nodes[0]->answers(node_address(1)), 0U);
}

TEST(AcmRoute, AHeardAddressCostsAQueryOnlyWhenItIsWanted) {
  auto fabric = joined_fabric(3);
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  EXPECT_EQ(fabric->queries_asked, 1U);
  ASSERT_TRUE(fabric->resolve(2, 0, kLimit));
  fabric->net.run_for(milliseconds(10));
  EXPECT_EQ(fabric->nodes[2]->engine.counters().requests_sent, 0U) << "it had heard node 0";
  EXPECT_EQ(fabric->nodes[2]->learned(node_address(0))->record.sl, kSaPathSl);
  EXPECT_EQ(fabric->queries_asked, 2U);
}

TEST(AcmRoute, OneQueryForAllNamesOfAPort) {
  Fabric fabric(1);
  const mad::AcmAddress name = *mad::AcmAddress::name("h1");
  const mad::AcmAddress ip = mad::AcmAddress::ipv4({10, 0, 0, 1});
  fabric.add(sa_config());
  fabric.add(node_port(1), sa_config(), {name, ip});
  fabric.net.run_for(milliseconds(10));
  fabric.sa_delay = milliseconds(50);
  for (const mad::AcmAddress& address : {name, ip, node_address(1)}) {
    ASSERT_TRUE(fabric.nodes[0]->engine.resolve(address, fabric.now() + kLimit, fabric.now()));
  }
  fabric.nodes[0]->drain(fabric.now());
  fabric.net.run_for(seconds(1));
  for (const mad::AcmAddress& address : {name, ip, node_address(1)}) {
    EXPECT_EQ(fabric.nodes[0]->answers(address), 1U);
    ASSERT_NE(fabric.nodes[0]->learned(address), nullptr);
  }
  EXPECT_EQ(fabric.queries_asked, 1U);
}

TEST(AcmRoute, WhenTheSaHasNoPathThePortStaysKnown) {
  auto fabric = joined_fabric(2);
  fabric->path_mode = SaMode::Refusing;
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  FabricNode& node = *fabric->nodes[0];
  ASSERT_EQ(node.answers(node_address(1)), 1U);
  EXPECT_EQ(node.unresolved(node_address(1))->reason, UnresolvedReason::NoRoute);
  // Asked again at once: told at once, and the SA is left alone.
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  EXPECT_EQ(node.answers(node_address(1)), 2U);
  EXPECT_EQ(fabric->queries_asked, 1U);
  // Later it has one; the address itself is not asked for again.
  fabric->path_mode = SaMode::Answering;
  fabric->net.run_for(seconds(2));
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  ASSERT_NE(node.learned(node_address(1)), nullptr);
  EXPECT_EQ(node.engine.counters().requests_sent, 1U);
}

TEST(AcmRoute, SilenceAndBusyAreTriedAgainWithGrowingWaits) {
  for (const SaMode mode : {SaMode::Silent, SaMode::Busy}) {
    auto fabric = joined_fabric(2);
    fabric->path_mode = mode;
    const Instant start = fabric->now();
    ASSERT_TRUE(fabric->resolve(0, 1, seconds(30)));
    ASSERT_TRUE(
        fabric->net.run_until([&] { return fabric->nodes[0]->answers(node_address(1)) == 1; }));
    EXPECT_EQ(fabric->nodes[0]->unresolved(node_address(1))->reason,
              UnresolvedReason::RouteTimeout);
    EXPECT_EQ(fabric->now(), start + seconds(30));
    // 0.5, 1, 2, 4, 8, 8 s and the SA's own silence between them.
    EXPECT_GE(fabric->queries_asked, 5U);
    EXPECT_LE(fabric->queries_asked, 9U);
    // Nobody waits any more: nothing is sent any more.
    const std::size_t asked = fabric->queries_asked;
    fabric->net.run_for(seconds(60));
    EXPECT_LE(fabric->queries_asked, asked + 1);
    EXPECT_EQ(fabric->nodes[0]->engine.counters().requests_sent, 1U);
  }
}

TEST(AcmRoute, AStalledSaOnlyDelays) {
  auto fabric = joined_fabric(20);
  fabric->path_mode = SaMode::Silent;
  for (std::size_t to = 1; to < 20; ++to) {
    ASSERT_TRUE(fabric->resolve(0, to, seconds(120)));
  }
  fabric->net.run_for(seconds(30));
  EXPECT_EQ(fabric->nodes[0]->engine.pending(), 19U);
  fabric->path_mode = SaMode::Answering;
  fabric->net.run_for(seconds(20));
  for (std::size_t to = 1; to < 20; ++to) {
    EXPECT_NE(fabric->nodes[0]->learned(node_address(to)), nullptr) << to;
  }
}

TEST(AcmRoute, QueriesInFlightAreBounded) {
  Config config = sa_config();
  config.sa_window = 4;
  config.sa_max_window = 6;
  auto fabric = joined_fabric(60, config);
  fabric->sa_delay = milliseconds(20);
  for (std::size_t to = 1; to < 60; ++to) {
    ASSERT_TRUE(fabric->resolve(0, to, kLimit));
  }
  fabric->net.run_for(seconds(5));
  EXPECT_EQ(fabric->nodes[0]->engine.pending(), 0U);
  EXPECT_EQ(fabric->queries_asked, 59U);
  EXPECT_EQ(fabric->most_queries_in_flight, 6U) << "it grew with the answers, up to its limit";
}

TEST(AcmRoute, RouteAndAddressHaveLivesOfTheirOwn) {
  Config config = sa_config();
  config.route_life = hours(1);
  config.address_life = hours(3);
  auto fabric = joined_fabric(2, config);
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  FabricNode& node = *fabric->nodes[0];
  fabric->net.run_for(hours(1));
  EXPECT_FALSE(node.engine.path(node_address(1)).has_value());
  EXPECT_EQ(node.engine.counters().routes_expired, 1U);
  ASSERT_EQ(node.forgotten.size(), 1U);
  EXPECT_EQ(node.forgotten[0].address, node_address(1));
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  EXPECT_TRUE(node.engine.path(node_address(1)).has_value());
  EXPECT_EQ(node.engine.counters().requests_sent, 1U) << "only the SA is asked again";
  EXPECT_EQ(fabric->queries_asked, 2U);
  fabric->net.run_for(hours(3));
  EXPECT_EQ(node.engine.entries(), 0U);
  EXPECT_EQ(node.engine.counters().expired, 0U) << "its route had ended before it";
  EXPECT_FALSE(node.engine.poll_timeout().has_value());
}

TEST(AcmRoute, ARestartedServiceIsNoReasonToAskTheSaAgain) {
  auto fabric = joined_fabric(2);
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  FabricNode& node = *fabric->nodes[0];
  // Two services on port 1 speak in turn.
  for (std::uint32_t turn = 0; turn < 20; ++turn) {
    mad::AcmRequest request{Tid(turn), node_address(7), node_address(1), {}};
    request.groups.gids[0] = group_mgid(PKey(0xFFFF), 0, mad::kRate10, mad::kMtu2048);
    request.groups.count = 1;
    mad::Mad bytes;
    mad::serialize(request, bytes);
    node.engine.handle_mad({node_lid(1), Qpn(0x800 + turn % 2), 0, true, node_gid(1)}, bytes,
                           fabric->now());
    node.drain(fabric->now());
  }
  EXPECT_EQ(node.engine.counters().restarts, 20U);
  EXPECT_EQ(fabric->queries_asked, 1U);
  EXPECT_TRUE(node.engine.path(node_address(1)).has_value());
  EXPECT_TRUE(node.forgotten.empty());
}

TEST(AcmRoute, AnotherLidVoidsThePath) {
  auto fabric = joined_fabric(2);
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  PortIdentity port = node_port(1);
  port.lid = Lid(77);
  fabric->nodes[1]->engine.port_changed(port, fabric->now());
  fabric->nodes[1]->drain(fabric->now());
  fabric->net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric->resolve(1, 9, seconds(1)));
  fabric->net.run_for(milliseconds(10));
  FabricNode& node = *fabric->nodes[0];
  EXPECT_FALSE(node.engine.path(node_address(1)).has_value());
  ASSERT_EQ(node.forgotten.size(), 1U);
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  ASSERT_TRUE(node.engine.path(node_address(1)).has_value());
  EXPECT_EQ(node.engine.path(node_address(1))->dlid, Lid(77));
  EXPECT_EQ(node.engine.counters().requests_sent, 1U);
}

TEST(AcmRoute, AnotherSubnetManagerVoidsThePathsOnly) {
  auto fabric = joined_fabric(2);
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  FabricNode& node = *fabric->nodes[0];
  node.engine.routes_changed(fabric->now());
  node.drain(fabric->now());
  EXPECT_EQ(node.invalidations, 1U);
  EXPECT_FALSE(node.engine.path(node_address(1)).has_value());
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  EXPECT_TRUE(node.engine.path(node_address(1)).has_value());
  EXPECT_EQ(node.engine.counters().requests_sent, 1U);
  EXPECT_EQ(fabric->queries_asked, 2U);
}

TEST(AcmRoute, APortChangeWhileTheSaIsAskedStartsAnew) {
  auto fabric = joined_fabric(2);
  fabric->path_mode = SaMode::Silent;
  ASSERT_TRUE(fabric->resolve(0, 1, seconds(60)));
  fabric->net.run_for(milliseconds(10));
  fabric->path_mode = SaMode::Answering;
  PortIdentity port = node_port(0);
  port.lid = Lid(50);
  fabric->nodes[0]->engine.port_changed(port, fabric->now());
  fabric->nodes[0]->drain(fabric->now());
  EXPECT_EQ(fabric->nodes[0]->engine.pending(), 1U);
  fabric->net.run_for(seconds(2));
  ASSERT_NE(fabric->nodes[0]->learned(node_address(1)), nullptr);
  EXPECT_EQ(fabric->nodes[0]->learned(node_address(1))->record.slid, Lid(50));
  EXPECT_EQ(fabric->nodes[0]->answers(node_address(1)), 1U);
}

TEST(AcmRoute, AnswersOfAnotherPathAreNotUsed) {
  auto fabric = joined_fabric(2);
  fabric->path_mode = SaMode::Silent;
  fabric->sa_timeout = hours(1);
  FabricNode& node = *fabric->nodes[0];
  const auto spoil = [&](auto change) {
    ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
    fabric->net.run_for(milliseconds(10));
    ASSERT_FALSE(node.queries.empty());
    mad::PathRecord record = node.queries.back().record;
    record.dlid = node_lid(1);
    record.slid = node_lid(0);
    record.mtu = mad::kMtu4096;
    change(record);
    node.engine.handle_path_reply(node.queries.back().id, record, fabric->now());
    node.drain(fabric->now());
    fabric->net.run_for(seconds(3));
  };
  spoil([](mad::PathRecord& record) { record.dgid = node_gid(2); });
  spoil([](mad::PathRecord& record) { record.sgid = node_gid(2); });
  spoil([](mad::PathRecord& record) { record.dlid = Lid(); });
  spoil([](mad::PathRecord& record) { record.dlid = Lid(0xC001); });
  spoil([](mad::PathRecord& record) { record.slid = Lid(9); });
  spoil([](mad::PathRecord& record) { record.pkey = PKey(0x8001); });
  spoil([](mad::PathRecord& record) { record.mtu = 0; });
  EXPECT_EQ(node.engine.counters().path_replies_bad, 7U);
  EXPECT_EQ(node.answers(node_address(1)), 7U);
  EXPECT_FALSE(node.engine.path(node_address(1)).has_value());
  EXPECT_EQ(node.unresolved(node_address(1))->reason, UnresolvedReason::NoRoute);
  spoil([](mad::PathRecord&) {});
  EXPECT_TRUE(node.engine.path(node_address(1)).has_value());
  // Late, foreign and repeated answers are nothing.
  node.engine.handle_path_reply(node.queries.back().id, node.queries.back().record, fabric->now());
  node.engine.handle_path_failure(4711, QueryFailure::Refused, fabric->now());
  EXPECT_EQ(node.engine.counters().path_replies_bad, 7U);
}

}  // namespace
}  // namespace wireup::acm::test
