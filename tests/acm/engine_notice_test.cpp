// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "acm/acm_fabric.hpp"

namespace wireup::acm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Fabric;
using test::FabricNode;
using test::node_address;
using test::node_gid;
using test::node_lid;

constexpr Duration kLimit = seconds(10);

Config bulk() {
  Config config = test::quiet();
  config.bulk_paths = BulkPaths::Auto;
  return config;
}

/// Node 0 has asked for the table of a fabric whose paths are not the groups', of `count` nodes.
std::unique_ptr<Fabric> filled(std::size_t count) {
  auto fabric = std::make_unique<Fabric>(1);
  for (std::size_t i = 0; i < count; ++i) {
    fabric->add(i == 0 ? bulk() : test::quiet());
  }
  fabric->net.run_for(milliseconds(20));
  return fabric;
}

/// Another LID, of which nothing is heard.
void move_silently(Fabric& fabric, std::size_t node, Lid lid) {
  PortIdentity port = test::node_port(node);
  port.lid = lid;
  fabric.nodes[node]->engine.port_changed(port, fabric.now());
}

void came(Fabric& fabric, const Gid& gid) {
  fabric.nodes[0]->engine.port_came(gid, fabric.now());
  fabric.nodes[0]->drain(fabric.now());
}

void left(Fabric& fabric, const Gid& gid) {
  fabric.nodes[0]->engine.port_left(gid);
  fabric.nodes[0]->drain(fabric.now());
}

TEST(AcmNotice, APortThatLeftIsForgotten) {
  auto fabric = filled(3);
  FabricNode& node = *fabric->nodes[0];
  ASSERT_TRUE(node.engine.path(node_address(1)).has_value());
  left(*fabric, node_gid(1));
  EXPECT_FALSE(node.engine.path(node_address(1)).has_value());
  ASSERT_EQ(node.forgotten.size(), 1U);
  EXPECT_EQ(node.forgotten[0].address, node_address(1));
  EXPECT_TRUE(node.engine.path(node_address(2)).has_value());
  fabric->net.run_for(seconds(5));
  EXPECT_EQ(fabric->queries_asked, 0U) << "nobody asks for what is away";
  EXPECT_EQ(node.engine.counters().ports_forgotten, 1U);
}

TEST(AcmNotice, OneThatComesBackElsewhereIsAskedForAgain) {
  for (const bool is_told_that_it_left : {false, true}) {
    auto fabric = filled(3);
    FabricNode& node = *fabric->nodes[0];
    if (is_told_that_it_left) {
      left(*fabric, node_gid(1));
    }
    move_silently(*fabric, 1, Lid(0x99));
    came(*fabric, node_gid(1));
    EXPECT_FALSE(node.engine.path(node_address(1)).has_value()) << "the old path is void at once";
    EXPECT_EQ(node.forgotten.size(), 1U);
    fabric->net.run_for(milliseconds(50));
    ASSERT_TRUE(node.engine.path(node_address(1)).has_value()) << "nobody had to ask";
    EXPECT_EQ(node.engine.path(node_address(1))->dlid, Lid(0x99));
    EXPECT_EQ(node.learned(node_address(1))->record.dlid, Lid(0x99));
    EXPECT_EQ(fabric->queries_asked, 1U);
  }
}

TEST(AcmNotice, AnUnknownPortIsNobodysBusiness) {
  auto fabric = filled(2);
  came(*fabric, test::node_gid(77));
  left(*fabric, test::node_gid(78));
  came(*fabric, node_gid(0));
  fabric->net.run_for(seconds(2));
  EXPECT_EQ(fabric->queries_asked, 0U);
  EXPECT_TRUE(fabric->nodes[0]->forgotten.empty());
  EXPECT_EQ(fabric->nodes[0]->engine.counters().ports_forgotten, 0U);
}

TEST(AcmNotice, ManyThatComeAtOnceCostOneTable) {
  auto fabric = filled(200);
  FabricNode& node = *fabric->nodes[0];
  const std::size_t tables = fabric->tables_asked;
  for (std::size_t i = 1; i < 200; ++i) {
    left(*fabric, node_gid(i));
  }
  for (std::size_t i = 1; i < 200; ++i) {
    came(*fabric, node_gid(i));
  }
  fabric->net.run_for(seconds(20));
  EXPECT_LE(fabric->queries_asked, 8U);
  EXPECT_EQ(fabric->tables_asked, tables + 1);
  for (std::size_t i = 1; i < 200; ++i) {
    EXPECT_TRUE(node.engine.path(node_address(i)).has_value()) << i;
  }
}

TEST(AcmNotice, ASilentSaIsAskedAgainForAPortThatCameBack) {
  auto fabric = filled(2);
  fabric->path_mode = test::SaMode::Silent;
  came(*fabric, node_gid(1));
  fabric->net.run_for(seconds(5));
  EXPECT_GE(fabric->queries_asked, 2U);
  EXPECT_LE(fabric->queries_asked, 6U);
  fabric->path_mode = test::SaMode::Answering;
  fabric->net.run_for(seconds(20));
  EXPECT_TRUE(fabric->nodes[0]->engine.path(node_address(1)).has_value());
  // And one that leaves meanwhile is not.
  fabric->path_mode = test::SaMode::Silent;
  came(*fabric, node_gid(1));
  left(*fabric, node_gid(1));
  fabric->net.run_for(seconds(2));
  const std::size_t asked = fabric->queries_asked;
  fabric->net.run_for(seconds(30));
  EXPECT_EQ(fabric->queries_asked, asked);
}

TEST(AcmNotice, WhoWaitsIsStillAnswered) {
  auto fabric = filled(3);
  FabricNode& node = *fabric->nodes[0];
  fabric->sa_delay = milliseconds(100);
  left(*fabric, node_gid(1));
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(10));
  came(*fabric, node_gid(1));
  left(*fabric, node_gid(2));
  fabric->net.run_for(milliseconds(300));
  EXPECT_EQ(node.answers(node_address(1)), 1U);
  EXPECT_EQ(fabric->queries_asked, 1U);
}

TEST(AcmNotice, MulticastMadePathsAreForgottenTheSameWay) {
  auto fabric = std::make_unique<Fabric>(1);
  fabric->add(test::quiet());
  fabric->add(test::quiet());
  fabric->net.run_for(milliseconds(20));
  ASSERT_TRUE(fabric->resolve(0, 1, kLimit));
  fabric->net.run_for(milliseconds(20));
  FabricNode& node = *fabric->nodes[0];
  ASSERT_EQ(node.engine.origin(node_address(1)), PathOrigin::AcmMulticast);
  left(*fabric, node_gid(1));
  EXPECT_FALSE(node.engine.path(node_address(1)).has_value());
  ASSERT_EQ(node.forgotten.size(), 1U);
}

}  // namespace
}  // namespace wireup::acm
