// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <vector>

#include "conn/conn_host.hpp"

namespace wireup::conn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Reconnect, AClosedPairConnectsAgainFromEitherSide) {
  World world(2);
  for (std::uint32_t round = 0; round < 6; ++round) {
    const std::uint32_t asking = round % 2;
    const std::uint32_t closing = round / 2 % 2;
    ASSERT_TRUE(world[asking].connect(1 - asking));
    ASSERT_TRUE(world.network.run());
    expect_connected(world[0], world[1]);
    EXPECT_EQ(world[0].engine().ready(world[1].self())->epoch, round + 1);
    ASSERT_TRUE(world[closing].close(1 - closing));
    ASSERT_TRUE(world.network.run());
  }
  EXPECT_EQ(world[0].all<Connected>().size(), 6U);
  EXPECT_EQ(world[1].all<Disconnected>().size(), 6U);
  expect_settled(world[0]);
  expect_settled(world[1]);
}

TEST(Reconnect, AtOnceAfterCloseStartsWhenTheCloseIsOver) {
  World world(2);
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  ASSERT_TRUE(world[0].close(1));
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  expect_connected(world[0], world[1]);
  ASSERT_EQ(world[0].events.size(), 3U);
  EXPECT_TRUE(std::holds_alternative<Connected>(world[0].events[0]));
  EXPECT_TRUE(std::holds_alternative<Disconnected>(world[0].events[1]));
  EXPECT_TRUE(std::holds_alternative<Connected>(world[0].events[2]));
}

TEST(Reconnect, ThePeerMayAskWhileOurDrepIsOnItsWay) {
  World world(2);
  world.network.set_faults({.min_delay = milliseconds(1), .max_delay = milliseconds(1)});
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  ASSERT_TRUE(world[0].close(1));
  world.network.run_for(milliseconds(1));  // rank 1 has the DREQ, rank 0 not yet the DREP
  ASSERT_EQ(world[1].all<Disconnected>().size(), 1U);
  // The DREP is lost, and the REQ of the new connection comes instead.
  world.network.set_filter(
      [](auto, auto, const Datagram& d) { return d.kind == mad::CmKind::Drep; });
  world[1].flush();
  ASSERT_TRUE(world[1].connect(0));
  world.network.run_for(milliseconds(50));
  expect_connected(world[0], world[1]);
  world.network.set_filter(nullptr);
  ASSERT_TRUE(world.network.run());
  expect_connected(world[0], world[1]);
  EXPECT_EQ(world[0].all<Disconnected>().size(), 1U);
  expect_settled(world[0]);
  expect_settled(world[1]);
}

TEST(Reconnect, APeerThatLostTheConnectionReplacesIt) {
  World world(2);
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  // Rank 1's DREQs never come through: it gives the connection up, rank 0 still has it.
  world.network.set_filter(
      [](auto from, auto, const Datagram& d) { return from == 1 && d.kind == mad::CmKind::Dreq; });
  ASSERT_TRUE(world[1].close(0));
  ASSERT_TRUE(world.network.run());
  EXPECT_EQ(world[1].all<Disconnected>().at(0).reason, EndReason::NoAnswer);
  ASSERT_NE(world[0].qp(1), nullptr);

  world.network.set_filter(nullptr);
  ASSERT_TRUE(world[1].connect(0));
  ASSERT_TRUE(world.network.run());
  expect_connected(world[0], world[1]);
  const auto ended = world[0].all<Disconnected>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].reason, EndReason::Replaced);
  EXPECT_EQ(world[0].all<Connected>().size(), 2U);
  expect_settled(world[0]);
  expect_settled(world[1]);
}

TEST(Reconnect, ALateRequestOfAnEarlierConnectionIsIgnored) {
  World world(2);
  std::vector<Datagram> requests;
  world.network.set_filter([&](auto, auto, const Datagram& d) {
    if (d.kind == mad::CmKind::Req) {
      requests.push_back(d);
    }
    return false;
  });
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  ASSERT_TRUE(world[0].close(1));
  ASSERT_TRUE(world.network.run());
  ASSERT_EQ(requests.size(), 1U);
  const std::uint64_t before = world[1].sent_in_all();
  world[1].deliver(requests[0], world.network.now());
  ASSERT_TRUE(world.network.run());
  EXPECT_EQ(world[1].sent_in_all(), before);
  EXPECT_EQ(world[1].engine().counters().stale_requests, 1U);
  EXPECT_EQ(world[1].events.size(), 2U);

  // Also while a newer connection is ready.
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  world[1].deliver(requests[0], world.network.now());
  ASSERT_TRUE(world.network.run());
  expect_connected(world[0], world[1]);
  expect_settled(world[0]);
  expect_settled(world[1]);
}

TEST(Reconnect, BothCloseAtOnce) {
  World world(2);
  world.network.set_faults({.min_delay = milliseconds(1), .max_delay = milliseconds(1)});
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  ASSERT_TRUE(world[0].close(1));
  ASSERT_TRUE(world[1].close(0));
  ASSERT_TRUE(world.network.run());
  EXPECT_EQ(world[0].all<Disconnected>().size(), 1U);
  EXPECT_EQ(world[1].all<Disconnected>().size(), 1U);
  expect_settled(world[0]);
  expect_settled(world[1]);
}

}  // namespace
}  // namespace wireup::conn
