// SPDX-License-Identifier: BSD-3-Clause
//
// A thousand nodes in one multicast group, with loss, duplicates and reordering.
#include <gtest/gtest.h>

#include <algorithm>

#include "acm/acm_fabric.hpp"
#include "support/seed.hpp"

namespace wireup::acm::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kNodes = 1000;
/// Everyone hears every question: a million deliveries for a thousand askers.
constexpr std::size_t kStep = 8;
constexpr Duration kLimit = seconds(60);

/// Tables far smaller than the fabric: what is heard pushes out what was heard before.
Config config(RouteProtocol protocol) {
  Config config;
  config.announcements = 0;
  config.max_entries = 64;
  config.route_protocol = protocol;
  return config;
}

/// The nodes come one after the other, as their joins reach the SA.
void start(Fabric& fabric, RouteProtocol protocol) {
  fabric.net.index_deadlines();
  fabric.keep_snooped = false;
  fabric.net.set_faults({.loss_percent = 5, .duplicate_percent = 2, .reorder_percent = 5});
  for (std::size_t i = 0; i < kNodes; ++i) {
    fabric.add(config(protocol));
  }
  fabric.net.run_for(milliseconds(10));
}

void expect_path(const Fabric& fabric, std::size_t from, std::size_t to) {
  ASSERT_EQ(fabric.nodes[from]->answers(node_address(to)), 1U) << from << " asks for " << to;
  const PathLearned* learned = fabric.nodes[from]->learned(node_address(to));
  ASSERT_NE(learned, nullptr) << from << " has no path to " << to;
  EXPECT_EQ(learned->record.dlid, node_lid(to));
  EXPECT_EQ(learned->record.slid, node_lid(from));
  EXPECT_EQ(learned->record.dgid, node_gid(to));
}

TEST(AcmScale, EveryEighthOfAThousandNodesAsksForItsNeighbour) {
  Fabric fabric(wireup::test::seed(1));
  start(fabric, RouteProtocol::Acm);
  for (std::size_t from = 0; from < kNodes; from += kStep) {
    ASSERT_TRUE(fabric.resolve(from, (from + 1) % kNodes, kLimit));
    fabric.net.run_for(milliseconds(1));
  }
  fabric.net.run_for(seconds(20));
  std::uint64_t requests = 0;
  for (std::size_t from = 0; from < kNodes; from += kStep) {
    expect_path(fabric, from, (from + 1) % kNodes);
    const Engine& engine = fabric.nodes[from]->engine;
    EXPECT_EQ(engine.pending(), 0U);
    EXPECT_LE(engine.entries(), 64U);
    requests += engine.counters().requests_sent;
  }
  // One in ten exchanges loses one of its two datagrams.
  EXPECT_LT(requests, kNodes / kStep * 13 / 10);
}

TEST(AcmScale, AllAskForOneAndOneForAll) {
  Fabric fabric(wireup::test::seed(2));
  start(fabric, RouteProtocol::Sa);
  for (std::size_t from = 1; from < 100; ++from) {
    ASSERT_TRUE(fabric.resolve(from, 0, kLimit));
  }
  for (std::size_t to = 900; to < 950; ++to) {
    ASSERT_TRUE(fabric.resolve(0, to, kLimit));
  }
  fabric.net.run_for(seconds(20));
  for (std::size_t from = 1; from < 100; ++from) {
    expect_path(fabric, from, 0);
  }
  for (std::size_t to = 900; to < 950; ++to) {
    expect_path(fabric, 0, to);
    EXPECT_EQ(fabric.nodes[0]->learned(node_address(to))->record.sl, kSaPathSl);
  }
  EXPECT_EQ(fabric.queries_asked, 149U)
      << "one for each path that is wanted, none for what is heard";
}

}  // namespace
}  // namespace wireup::acm::test
