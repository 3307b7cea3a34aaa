// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "acm/acm_fabric.hpp"

namespace wireup::acm {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using test::Fabric;
using test::FabricNode;
using test::node_address;
using test::node_gid;
using test::node_lid;
using test::SaMode;

constexpr Duration kLimit = seconds(10);

Config bulk(BulkPaths policy = BulkPaths::Auto, RouteProtocol protocol = RouteProtocol::Acm) {
  Config config = test::quiet();
  config.bulk_paths = policy;
  config.route_protocol = protocol;
  return config;
}

/// The SA's paths have the SL of the groups, and as much MTU and rate at least.
std::unique_ptr<Fabric> uniform() {
  auto fabric = std::make_unique<Fabric>(1);
  fabric->path_sl = Sl(0);
  return fabric;
}

std::unique_ptr<Fabric> varied() {
  auto fabric = uniform();
  fabric->sl_to[node_gid(2)] = Sl(3);
  return fabric;
}

TEST(AcmTable, OneRequestFillsTheNode) {
  auto fabric = uniform();
  fabric->add(bulk());
  for (std::size_t i = 1; i < 50; ++i) {
    fabric->add(test::quiet());
  }
  fabric->net.run_for(milliseconds(10));
  FabricNode& node = *fabric->nodes[0];
  EXPECT_EQ(fabric->tables_asked, 1U);
  for (std::size_t i = 1; i < 50; ++i) {
    ASSERT_TRUE(node.engine.path(node_address(i)).has_value()) << i;
    EXPECT_EQ(node.engine.origin(node_address(i)), PathOrigin::SaQuery);
    ASSERT_NE(node.learned(node_address(i)), nullptr) << "it is published";
    ASSERT_TRUE(fabric->resolve(0, i, kLimit));
    EXPECT_EQ(node.answers(node_address(i)), 1U) << "at once";
  }
  EXPECT_EQ(fabric->queries_asked, 0U);
  EXPECT_EQ(node.engine.counters().requests_sent, 0U);
  EXPECT_EQ(node.engine.counters().paths_from_tables, 49U);
  EXPECT_FALSE(node.engine.path(node_address(0)).has_value()) << "itself is no peer";
  // And with its LID.
  ASSERT_TRUE(node.engine.resolve(mad::AcmAddress::lid(node_lid(7)), fabric->now() + kLimit,
                                  fabric->now()));
  node.drain(fabric->now());
  EXPECT_EQ(node.learned(mad::AcmAddress::lid(node_lid(7)))->record.dgid, node_gid(7));
}

TEST(AcmTable, WhereAllPathsAreTheGroupsOwnMulticastMadePathsAreUsed) {
  auto fabric = uniform();
  fabric->add(bulk());
  fabric->add(bulk());
  fabric->net.run_for(milliseconds(20));
  EXPECT_EQ(fabric->nodes[0]->engine.route_protocol(), RouteProtocol::Acm);
  // A node that came after the table: a miss, and one multicast finds it.
  fabric->add(bulk());
  fabric->net.run_for(milliseconds(20));
  ASSERT_TRUE(fabric->resolve(0, 2, kLimit));
  fabric->net.run_for(milliseconds(20));
  ASSERT_NE(fabric->nodes[0]->learned(node_address(2)), nullptr);
  EXPECT_EQ(fabric->nodes[0]->learned(node_address(2))->origin, PathOrigin::AcmMulticast);
  EXPECT_EQ(fabric->queries_asked, 0U);
}

TEST(AcmTable, WhereOnePathHasAnotherSlNoneIsMadeOfAGroup) {
  auto fabric = varied();
  for (int i = 0; i < 3; ++i) {
    fabric->add(bulk());
  }
  fabric->net.run_for(milliseconds(20));
  FabricNode& node = *fabric->nodes[0];
  EXPECT_EQ(node.engine.route_protocol(), RouteProtocol::Sa);
  EXPECT_EQ(node.engine.path(node_address(1))->sl, Sl(0));
  EXPECT_EQ(node.engine.path(node_address(2))->sl, Sl(3));
  // One that came later is heard, but its path is the SA's: asked once, by its GID.
  fabric->add(bulk());
  fabric->sl_to[node_gid(3)] = Sl(6);
  fabric->net.run_for(milliseconds(20));
  ASSERT_TRUE(fabric->resolve(0, 3, kLimit));
  fabric->net.run_for(milliseconds(20));
  ASSERT_NE(node.learned(node_address(3)), nullptr);
  EXPECT_EQ(node.learned(node_address(3))->origin, PathOrigin::SaQuery);
  EXPECT_EQ(node.learned(node_address(3))->record.sl, Sl(6));
  EXPECT_EQ(fabric->queries_asked, 1U);
  EXPECT_EQ(node.engine.counters().requests_sent, 0U);
}

/// Two nodes, and a switch whose own port is slower than theirs.
std::unique_ptr<Fabric> with_slow_switch() {
  auto fabric = uniform();
  mad::PathRecord to_switch;
  to_switch.dgid = Gid::make(0xFE80000000000000, Guid(0x5A01));
  to_switch.dlid = Lid(0x300);
  to_switch.mtu = mad::kMtu1024;
  to_switch.rate = mad::kRate10;
  to_switch.reversible = true;
  fabric->without_acm.push_back(to_switch);
  fabric->switches = {Guid(0x5A00), Guid(0x5A01)};
  return fabric;
}

TEST(AcmTable, ASwitchWhoseOwnPortIsSlowIsNoVerdict) {
  auto fabric = with_slow_switch();
  fabric->add(bulk());
  fabric->add(bulk());
  fabric->net.run_for(milliseconds(20));
  EXPECT_EQ(fabric->nodes[0]->engine.route_protocol(), RouteProtocol::Acm);
  EXPECT_EQ(fabric->tables_asked, 2U);
  EXPECT_EQ(fabric->switches_asked, 2U) << "two requests a node";
}

TEST(AcmTable, AnAdapterThatIsAsSlowIsOne) {
  auto fabric = with_slow_switch();
  fabric->switches.pop_back();
  fabric->add(bulk());
  fabric->net.run_for(milliseconds(20));
  EXPECT_EQ(fabric->nodes[0]->engine.route_protocol(), RouteProtocol::Sa);
}

TEST(AcmTable, WhereTheSaDoesNotTellItsSwitchesPathsDiffer) {
  for (const SaMode mode : {SaMode::Silent, SaMode::Refusing}) {
    auto fabric = with_slow_switch();
    fabric->switch_mode = mode;
    fabric->add(test::quiet());
    fabric->add(bulk());
    fabric->net.run_for(seconds(10));
    EXPECT_EQ(fabric->nodes[1]->engine.route_protocol(), RouteProtocol::Sa);
    EXPECT_EQ(fabric->switches_asked, 1U);
  }
}

TEST(AcmTable, WhereAllPathsAreEqualNobodyAsksForSwitches) {
  auto fabric = uniform();
  fabric->switches = {Guid(0x5A01)};
  fabric->add(bulk());
  fabric->net.run_for(milliseconds(20));
  EXPECT_EQ(fabric->switches_asked, 0U);
}

TEST(AcmTable, ASlThatIsNotTheGroupsIsAVerdictToo) {
  auto fabric = uniform();
  fabric->path_sl = Sl(2);
  fabric->add(bulk());
  fabric->add(bulk());
  fabric->net.run_for(milliseconds(20));
  EXPECT_EQ(fabric->nodes[0]->engine.route_protocol(), RouteProtocol::Sa);
}

TEST(AcmTable, MtuAndRateCount) {
  mad::McMemberRecord group;
  group.sl = Sl(1);
  group.mtu = mad::kMtu2048;
  group.rate = mad::kRate40;
  EXPECT_TRUE(goes_with(group, {Sl(1), mad::kMtu2048, mad::kRate40}));
  EXPECT_TRUE(goes_with(group, {Sl(1), mad::kMtu4096, mad::kRate100}));
  EXPECT_FALSE(goes_with(group, {Sl(0), mad::kMtu2048, mad::kRate40}));
  EXPECT_FALSE(goes_with(group, {Sl(1), mad::kMtu1024, mad::kRate40}));
  EXPECT_FALSE(goes_with(group, {Sl(1), mad::kMtu2048, mad::kRate10}));
  // The codes of rates do not ascend with the rates.
  group.rate = mad::kRate10;
  EXPECT_TRUE(goes_with(group, {Sl(1), mad::kMtu2048, mad::kRate100}));
  EXPECT_FALSE(goes_with(group, {Sl(1), mad::kMtu2048, 63}));
}

TEST(AcmTable, QuestionsWaitForTheVerdict) {
  for (const bool is_varied : {false, true}) {
    auto fabric = is_varied ? varied() : uniform();
    fabric->table_delay = milliseconds(500);
    for (int i = 0; i < 3; ++i) {
      fabric->add(bulk());
    }
    fabric->net.run_for(milliseconds(50));
    const mad::AcmAddress name = *mad::AcmAddress::name("later");
    fabric->nodes[2]->engine.set_locals({name});
    FabricNode& node = *fabric->nodes[0];
    ASSERT_TRUE(fabric->resolve(0, 2, kLimit));
    ASSERT_TRUE(node.engine.resolve(name, fabric->now() + kLimit, fabric->now()));
    node.drain(fabric->now());
    fabric->net.run_for(milliseconds(300));
    EXPECT_EQ(node.engine.route_protocol(), RouteProtocol::Undecided);
    EXPECT_EQ(node.engine.counters().responses_received, 2U) << "the ports are known";
    EXPECT_EQ(node.answers(node_address(2)) + node.answers(name), 0U);
    EXPECT_EQ(node.learned(node_address(2)), nullptr) << "and nothing is published";
    fabric->net.run_for(milliseconds(300));
    EXPECT_EQ(node.answers(node_address(2)), 1U);
    EXPECT_EQ(node.answers(name), 1U);
    EXPECT_EQ(node.learned(name)->record.sl, Sl(is_varied ? 3 : 0));
    EXPECT_EQ(fabric->queries_asked, 0U);
  }
}

TEST(AcmTable, ASilentSaDelaysByTwoSecondsAndALaterVerdictVoids) {
  auto fabric = varied();
  fabric->table_mode = SaMode::Silent;
  fabric->sa_timeout = seconds(3);
  for (int i = 0; i < 3; ++i) {
    fabric->add(bulk());
  }
  fabric->net.run_for(milliseconds(50));
  FabricNode& node = *fabric->nodes[0];
  ASSERT_TRUE(fabric->resolve(0, 2, kLimit));
  fabric->net.run_for(milliseconds(1900));
  EXPECT_EQ(node.answers(node_address(2)), 0U);
  fabric->net.run_for(milliseconds(200));
  ASSERT_EQ(node.answers(node_address(2)), 1U) << "as before";
  EXPECT_EQ(node.learned(node_address(2))->origin, PathOrigin::AcmMulticast);
  EXPECT_EQ(node.learned(node_address(2))->record.sl, Sl(0));
  fabric->table_mode = SaMode::Answering;
  fabric->net.run_for(seconds(10));
  EXPECT_GE(fabric->tables_asked, 6U) << "tried again";
  EXPECT_EQ(node.engine.route_protocol(), RouteProtocol::Sa);
  EXPECT_GE(node.invalidations, 1U) << "what was published is void";
  EXPECT_EQ(node.learned(node_address(2))->record.sl, Sl(3)) << "and published anew";
  EXPECT_EQ(node.engine.path(node_address(2))->sl, Sl(3));
}

TEST(AcmTable, AnSaWithoutTablesIsNotWaitedFor) {
  auto fabric = uniform();
  fabric->table_mode = SaMode::Refusing;
  fabric->add(bulk());
  fabric->add(bulk());
  fabric->net.run_for(milliseconds(20));
  EXPECT_EQ(fabric->nodes[0]->engine.route_protocol(), RouteProtocol::Acm);
  fabric->net.run_for(minutes(2));
  EXPECT_LE(fabric->tables_asked, 2U * 4U) << "once a minute and node";
}

TEST(AcmTable, BusyAndSilenceAreMetWithGrowingWaits) {
  for (const SaMode mode : {SaMode::Busy, SaMode::Silent}) {
    auto fabric = uniform();
    fabric->table_mode = mode;
    fabric->add(bulk());
    fabric->net.run_for(minutes(10));
    EXPECT_GE(fabric->tables_asked, 8U);
    EXPECT_LE(fabric->tables_asked, 20U);
  }
}

TEST(AcmTable, AlwaysMeansTheSaAlone) {
  auto fabric = uniform();
  fabric->add(bulk(BulkPaths::Always));
  fabric->add(bulk());
  fabric->net.run_for(milliseconds(20));
  EXPECT_EQ(fabric->nodes[0]->engine.route_protocol(), RouteProtocol::Sa);
  fabric->table_mode = SaMode::Silent;
  fabric->add(bulk(BulkPaths::Always));
  fabric->net.run_for(seconds(3));
  EXPECT_EQ(fabric->nodes[2]->engine.route_protocol(), RouteProtocol::Sa);
}

TEST(AcmTable, NeverAsksForNone) {
  auto fabric = varied();
  for (int i = 0; i < 3; ++i) {
    fabric->add(bulk(BulkPaths::Never));
  }
  fabric->net.run_for(seconds(5));
  EXPECT_EQ(fabric->tables_asked, 0U);
  ASSERT_TRUE(fabric->resolve(0, 2, kLimit));
  fabric->net.run_for(milliseconds(20));
  EXPECT_EQ(fabric->nodes[0]->learned(node_address(2))->origin, PathOrigin::AcmMulticast);
}

TEST(AcmTable, TheSaModeAsksSinglesForMissesOnly) {
  auto fabric = uniform();
  fabric->table_delay = milliseconds(300);
  for (int i = 0; i < 10; ++i) {
    fabric->add(bulk(BulkPaths::Auto, RouteProtocol::Sa));
  }
  fabric->net.run_for(milliseconds(50));
  for (std::size_t i = 1; i < 10; ++i) {
    ASSERT_TRUE(fabric->resolve(0, i, kLimit));
  }
  fabric->net.run_for(milliseconds(600));
  for (std::size_t i = 1; i < 10; ++i) {
    EXPECT_EQ(fabric->nodes[0]->answers(node_address(i)), 1U);
  }
  EXPECT_EQ(fabric->queries_asked, 0U);
  EXPECT_EQ(fabric->tables_asked, 10U) << "one a node";
}

TEST(AcmTable, ADatagramFromTheSameLidChangesNothing) {
  auto fabric = uniform();
  fabric->add(bulk());
  fabric->add(test::quiet());
  fabric->net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric->resolve(1, 0, kLimit));
  fabric->net.run_for(milliseconds(10));
  FabricNode& node = *fabric->nodes[0];
  EXPECT_EQ(node.engine.origin(node_address(1)), PathOrigin::SaQuery);
  EXPECT_EQ(node.engine.counters().restarts, 0U);
}

/// Node 1 gets another LID and tells the group so.
void move(Fabric& fabric, Lid lid) {
  PortIdentity port = test::node_port(1);
  port.lid = lid;
  fabric.nodes[1]->engine.port_changed(port, fabric.now());
  fabric.nodes[1]->drain(fabric.now());
}

TEST(AcmTable, ADatagramFromAnotherLidIsBelieved) {
  for (const bool is_varied : {false, true}) {
    auto fabric = is_varied ? varied() : uniform();
    Config config = bulk();
    config.announcements = 1;
    for (int i = 0; i < 3; ++i) {
      fabric->add(config);
    }
    fabric->net.run_for(milliseconds(50));
    FabricNode& node = *fabric->nodes[0];
    EXPECT_EQ(node.engine.path(node_address(1))->dlid, node_lid(1));
    move(*fabric, Lid(0x99));
    fabric->net.run_for(milliseconds(50));
    const auto path = node.engine.path(node_address(1));
    if (is_varied) {
      EXPECT_FALSE(path.has_value()) << "its SL is unknown until the SA is asked";
      ASSERT_EQ(node.forgotten.size(), 1U);
      EXPECT_EQ(node.forgotten[0].address, node_address(1));
      ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
      fabric->net.run_for(milliseconds(50));
    }
    ASSERT_TRUE(node.engine.path(node_address(1)).has_value());
    EXPECT_EQ(node.engine.path(node_address(1))->dlid, Lid(0x99));
    EXPECT_EQ(node.learned(node_address(1))->record.dlid, Lid(0x99)) << "and it is published";
  }
}

TEST(AcmTable, AnotherPortIdentityAsksForAnotherTableButNotTooOften) {
  auto fabric = uniform();
  fabric->add(bulk());
  fabric->add(test::quiet());
  fabric->net.run_for(milliseconds(50));
  ASSERT_EQ(fabric->tables_asked, 1U);
  PortIdentity port = test::node_port(0);
  for (int i = 0; i < 100; ++i) {
    port.lid = Lid(static_cast<std::uint16_t>(0x200 + i));
    fabric->nodes[0]->engine.port_changed(port, fabric->now());
    fabric->nodes[0]->drain(fabric->now());
    fabric->net.run_for(seconds(1));
  }
  fabric->net.run_for(minutes(2));
  EXPECT_GE(fabric->tables_asked, 3U);
  EXPECT_LE(fabric->tables_asked, 12U);
  EXPECT_EQ(fabric->nodes[0]->engine.path(node_address(1))->slid, port.lid);
}

TEST(AcmTable, AnAnswerToAnEarlierRequestIsNotUsed) {
  auto fabric = uniform();
  fabric->table_delay = milliseconds(100);
  fabric->add(bulk());
  fabric->add(test::quiet());
  fabric->net.run_for(milliseconds(50));
  PortIdentity port = test::node_port(0);
  port.lid = Lid(0x200);
  fabric->nodes[0]->engine.port_changed(port, fabric->now());
  fabric->nodes[0]->drain(fabric->now());
  fabric->net.run_for(milliseconds(60));
  EXPECT_EQ(fabric->nodes[0]->engine.counters().paths_from_tables, 0U);
}

TEST(AcmTable, HostileRecordsAreNotTaken) {
  Fabric fabric(1);
  FabricNode& node = fabric.add(bulk(BulkPaths::Never));
  Config config = bulk();
  Engine engine(config, test::node_port(0), Rng(1), fabric.now());
  const auto query = engine.poll_table_query(fabric.now());
  ASSERT_TRUE(query.has_value());
  mad::PathRecord good = query->record;
  good.dgid = node_gid(1);
  good.dlid = node_lid(1);
  good.slid = node_lid(0);
  good.mtu = mad::kMtu2048;
  good.rate = mad::kRate10;
  std::vector<mad::PathRecord> records(8, good);
  records[0].dlid = Lid(0);
  records[1].dlid = Lid(0xC001);
  records[2].slid = Lid(0x999);
  records[3].sgid = node_gid(5);
  records[4].pkey = PKey(0x8001);
  records[5].mtu = 9;
  records[6].dgid = node_gid(0);
  records[7].dgid = Gid({0xFF, 0x12});
  engine.handle_path_table(query->id, records, fabric.now());
  EXPECT_EQ(engine.entries(), 0U);
  EXPECT_EQ(engine.counters().paths_from_tables, 0U);
  engine.handle_path_table(query->id, {&good, 1}, fabric.now());
  EXPECT_EQ(engine.entries(), 0U) << "the same answer again";
  static_cast<void>(node);
}

TEST(AcmTable, ATableLongerThanTheEngineIsCut) {
  Config config = bulk();
  config.max_entries = 10;
  Engine engine(config, test::node_port(0), Rng(1), Instant(seconds(1)));
  const auto query = engine.poll_table_query(Instant(seconds(1)));
  ASSERT_TRUE(query.has_value());
  std::vector<mad::PathRecord> records;
  for (std::size_t i = 1; i < 1000; ++i) {
    mad::PathRecord record = query->record;
    record.dgid = node_gid(i);
    record.dlid = node_lid(i);
    record.slid = node_lid(0);
    record.mtu = mad::kMtu2048;
    record.rate = mad::kRate10;
    records.push_back(record);
  }
  engine.handle_path_table(query->id, records, Instant(seconds(1)));
  EXPECT_EQ(engine.entries(), 10U);
}

TEST(AcmTable, OfSeveralPathsToAPortTheBaseLidsOneIsTaken) {
  PortIdentity port = test::node_port(0);
  port.lid = Lid(0x40);
  port.lmc = 2;
  Engine engine(bulk(), port, Rng(1), Instant(seconds(1)));
  const auto query = engine.poll_table_query(Instant(seconds(1)));
  ASSERT_TRUE(query.has_value());
  std::vector<mad::PathRecord> records;
  for (const int slid : {0x42, 0x40, 0x41}) {
    for (const int dlid : {0x83, 0x81, 0x80}) {
      mad::PathRecord record = query->record;
      record.dgid = node_gid(1);
      record.dlid = Lid(static_cast<std::uint16_t>(dlid));
      record.slid = Lid(static_cast<std::uint16_t>(slid));
      record.mtu = mad::kMtu2048;
      record.rate = mad::kRate10;
      records.push_back(record);
    }
  }
  engine.handle_path_table(query->id, records, Instant(seconds(1)));
  const auto path = engine.path(node_address(1));
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->slid, Lid(0x40));
  EXPECT_EQ(path->dlid, Lid(0x80));
}

TEST(AcmTable, UndecidedIsNoChoice) {
  Config config;
  config.route_protocol = RouteProtocol::Undecided;
  EXPECT_FALSE(validate(config).has_value());
  config = {};
  config.bulk_first_retry = Duration::zero();
  EXPECT_FALSE(validate(config).has_value());
}

}  // namespace
}  // namespace wireup::acm
