// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "conn/conn_host.hpp"

namespace wireup::conn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Handshake, TakesThreeMessagesAndConnectsBothEnds) {
  World world(2);
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  expect_connected(world[0], world[1]);
  EXPECT_EQ(world[0].sent_in_all() + world[1].sent_in_all(), 3U);
  ASSERT_EQ(world[0].events.size(), 1U);
  EXPECT_EQ(world[0].all<Connected>().at(0).peer, world[1].self());
  ASSERT_EQ(world[1].events.size(), 1U);
  EXPECT_EQ(world[1].all<Connected>().at(0).peer, world[0].self());
  expect_settled(world[0]);
  expect_settled(world[1]);
}

TEST(Handshake, ProgramsEachEndFromItsOwnDirection) {
  World world(2);
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  const QpAttributes& active = world[0].qp(1)->attributes;
  const QpAttributes& passive = world[1].qp(0)->attributes;
  EXPECT_EQ(active.sl, Sl(2));
  EXPECT_EQ(passive.sl, Sl(5));
  EXPECT_EQ(active.static_rate, 7);
  EXPECT_EQ(passive.static_rate, 3);
  EXPECT_EQ(active.traffic_class, 11);
  EXPECT_EQ(passive.traffic_class, 22);
  EXPECT_EQ(active.dlid, Place::lid(1));
  EXPECT_EQ(passive.dlid, Place::lid(0));
  EXPECT_EQ(active.mtu, 4);  // the smaller direction's
  EXPECT_EQ(passive.mtu, 4);
  // Ours: answers 4, starts 8; so each side may start 4.
  EXPECT_EQ(active.initiator_depth, 4);
  EXPECT_EQ(active.responder_resources, 4);
  EXPECT_EQ(active.retry_count, 7);
  EXPECT_EQ(passive.rnr_retry_count, 7);
  EXPECT_GE(active.ack_timeout, IbTimeout(16));
}

TEST(Handshake, DisconnectTakesTwoMessagesAndReleasesTheQueuePairs) {
  World world(2);
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  ASSERT_TRUE(world[1].close(0));
  ASSERT_TRUE(world.network.run());
  EXPECT_EQ(world[0].sent_in_all() + world[1].sent_in_all(), 5U);
  EXPECT_EQ(world[0].qp(1), nullptr);
  EXPECT_EQ(world[1].qp(0), nullptr);
  EXPECT_EQ(world[0].all<Disconnected>().at(0).reason, EndReason::Peer);
  EXPECT_EQ(world[1].all<Disconnected>().at(0).reason, EndReason::Local);
  expect_settled(world[0]);
  expect_settled(world[1]);
}

TEST(Handshake, ConnectToAReadyPeerDoesNothing) {
  World world(2);
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world[1].connect(0));
  ASSERT_TRUE(world.network.run());
  EXPECT_EQ(world[0].events.size(), 1U);
  EXPECT_EQ(world[1].events.size(), 1U);
  EXPECT_EQ(world[0].sent_in_all() + world[1].sent_in_all(), 3U);
}

TEST(Handshake, ToOneselfNeedsNoMessage) {
  World world(2);
  ASSERT_TRUE(world[0].connect(0));
  ASSERT_TRUE(world.network.run());
  const SimQp* qp = world[0].qp(0);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->attributes.peer_qpn, qp->qpn);
  EXPECT_EQ(qp->attributes.send_psn, qp->attributes.receive_psn);
  EXPECT_EQ(world[0].sent_in_all(), 0U);
  ASSERT_TRUE(world[0].close(0));
  EXPECT_EQ(world[0].all<Disconnected>().at(0).reason, EndReason::Local);
  expect_settled(world[0]);
}

TEST(Handshake, LateAnswersOfTheDriverAreWaitedFor) {
  World world(2);
  for (auto& rank : world.ranks) {
    rank->answer_delay = [] { return milliseconds(300); };
  }
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  expect_connected(world[0], world[1]);
  // Card and path of the asking side took 300 ms each, the path of the other as well.
  const Connection* c = world[0].engine().ready(world[1].self());
  EXPECT_EQ(*c->timeline.card - c->timeline.started, milliseconds(300));
  EXPECT_EQ(*c->timeline.path - *c->timeline.card, milliseconds(300));
}

TEST(Handshake, AnEngineIsAValue) {
  World world(2);
  ASSERT_TRUE(world[0].connect(1));
  const Engine copy = world[0].engine();
  EXPECT_EQ(copy, world[0].engine());
  ASSERT_TRUE(world.network.run());
  EXPECT_FALSE(copy == world[0].engine());
  EXPECT_EQ(copy.ready(world[1].self()), nullptr);
}

TEST(Handshake, CloseAllEndsEverythingAndRefusesNewPeers) {
  World world(4);
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world[2].connect(0));
  ASSERT_TRUE(world.network.run());
  world[0].engine().close_all(world.network.now());
  world[0].flush();
  EXPECT_FALSE(world[0].engine().is_closed());
  EXPECT_FALSE(world[0].connect(3));
  ASSERT_TRUE(world[3].connect(0, seconds(5)));
  ASSERT_TRUE(world.network.run());
  EXPECT_TRUE(world[0].engine().is_closed());
  EXPECT_EQ(world[0].engine().ready_count(), 0U);
  const auto failed = world[3].all<Failed>();
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].step, Step::Request);
  EXPECT_TRUE(failed[0].error.is(Errc::PeerGone)) << failed[0].error.what();
}

TEST(Handshake, CloseWhileTheReplyIsOutEndsTheConnectionAtBothEnds) {
  World world(2);
  // The RTU is held back: rank 1 stands in Replying.
  bool hold = true;
  world.network.set_filter(
      [&](auto, auto, const Datagram& d) { return hold && d.kind == mad::CmKind::Rtu; });
  ASSERT_TRUE(world[0].connect(1));
  world.network.run_for(milliseconds(10));
  ASSERT_NE(world[0].qp(1), nullptr);
  ASSERT_TRUE(world[1].close(0));
  hold = false;
  ASSERT_TRUE(world.network.run());
  EXPECT_EQ(world[0].qp(1), nullptr);
  EXPECT_EQ(world[0].all<Disconnected>().at(0).reason, EndReason::Peer);
  ASSERT_EQ(world[1].events.size(), 1U);
  EXPECT_EQ(world[1].all<Disconnected>().at(0).id, ConnectionId{});
  expect_settled(world[0]);
  expect_settled(world[1]);
}

}  // namespace
}  // namespace wireup::conn
