// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cm/cm_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Both ends connect to each other's service id and nobody listens.
class PeerToPeer : public testing::Test {
 protected:
  PeerToPeer() {
    a.engine().unlisten(kService);
    b.engine().unlisten(kService);
  }
  static Handle call(Host& from, const Host& to, std::uint32_t qpn) {
    ConnectParams params = from.connect_params(to.id(), qpn);
    params.peer_to_peer = true;
    return from.connect(params);
  }
  /// One connection, made by `active`, under the handles of both connects.
  void expect_one(Host& active, Handle of_active, Host& passive, Handle of_passive) {
    EXPECT_EQ(active.engine().state(of_active), State::Established);
    EXPECT_EQ(passive.engine().state(of_passive), State::Established);
    EXPECT_EQ(active.all<RepReceived>().size(), 1U);
    EXPECT_EQ(passive.all<ReqReceived>().size(), 1U);
    EXPECT_EQ(passive.all<ReqReceived>()[0].handle, of_passive);
    EXPECT_EQ(passive.all<Established>().size(), 1U);
    EXPECT_EQ(a.engine().connections() + b.engine().connections(), 2U);
    EXPECT_EQ(a.engine().poll_timeout(), std::nullopt);
    EXPECT_EQ(b.engine().poll_timeout(), std::nullopt);
  }

  Network network{8};
  Host a{network, 81};
  Host b{network, 82};
};

TEST_F(PeerToPeer, TheLargerGuidStaysActive) {
  ASSERT_GT(b.guid(), a.guid());
  const Handle of_a = call(a, b, 0x500);
  const Handle of_b = call(b, a, 0x501);
  ASSERT_TRUE(network.run());
  expect_one(b, of_b, a, of_a);
  EXPECT_EQ(a.sent_in_all() + b.sent_in_all(), 4U) << "one message more than uncrossed";
}

TEST_F(PeerToPeer, TheOneThatCallsLaterIsWaitedFor) {
  const Handle of_a = call(a, b, 0x500);
  network.run_for(seconds(3));
  EXPECT_EQ(a.engine().state(of_a), State::ReqSent) << "refused, since nobody calls there yet";
  EXPECT_GT(b.sent(mad::CmKind::Rej), 0U);
  const Handle of_b = call(b, a, 0x501);
  ASSERT_TRUE(network.run());
  expect_one(b, of_b, a, of_a);
}

TEST_F(PeerToPeer, TheActiveOneMayCallFirst) {
  const Handle of_b = call(b, a, 0x501);
  network.run_for(seconds(3));
  const Handle of_a = call(a, b, 0x500);
  ASSERT_TRUE(network.run());
  expect_one(b, of_b, a, of_a);
}

TEST_F(PeerToPeer, LossesChangeNothing) {
  for (const auto kind : {mad::CmKind::Req, mad::CmKind::Rep, mad::CmKind::Rtu}) {
    for (const Host* loser : {&a, &b}) {
      network.set_filter(lose(loser->id(), kind, 2));
      a.events.clear();
      b.events.clear();
      const Handle of_a = call(a, b, 0x500);
      const Handle of_b = call(b, a, 0x501);
      ASSERT_TRUE(network.run());
      expect_one(b, of_b, a, of_a);
      ASSERT_TRUE(a.disconnect(of_a));
      ASSERT_TRUE(network.run());
    }
  }
}

TEST_F(PeerToPeer, ALateCopyOfTheWithdrawnRequestDoesNoHarm) {
  std::optional<Datagram> copy;
  network.set_filter([&](Network::NodeId from, Network::NodeId, const Datagram& datagram) {
    if (from == a.id() && datagram.kind == mad::CmKind::Req) {
      copy = datagram;
    }
    return false;
  });
  const Handle of_a = call(a, b, 0x500);
  const Handle of_b = call(b, a, 0x501);
  ASSERT_TRUE(network.run());
  network.run_for(seconds(5));  // beyond the guard against stale connections
  ASSERT_TRUE(copy.has_value());
  b.deliver(*copy, network.now());
  ASSERT_TRUE(network.run());
  expect_one(b, of_b, a, of_a);
}

TEST_F(PeerToPeer, NobodyCallsBack) {
  ConnectParams params = a.connect_params(b.id(), 0x500, seconds(5));
  params.peer_to_peer = true;
  a.connect(params);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<Failed>().size(), 1U);
  EXPECT_EQ(a.all<Failed>()[0].step, Step::Reply);
  EXPECT_EQ(a.engine().connections(), 0U);
}

TEST_F(PeerToPeer, OtherServicesAndOtherPeersDoNotMeet) {
  Host c{network, 83};
  c.engine().unlisten(kService);
  const Handle of_a = call(a, b, 0x500);
  call(c, a, 0x700);
  network.run_for(seconds(2));
  EXPECT_EQ(a.engine().state(of_a), State::ReqSent);
  EXPECT_TRUE(a.all<ReqReceived>().empty());
}

TEST_F(PeerToPeer, QueuePairsDecideWithinAChannelAdapter) {
  ConnectParams params = a.connect_params(b.id(), 0x500);
  params.peer_to_peer = true;
  params.local_ca_guid = Guid(7);
  const Handle of_a = a.connect(params);
  params = b.connect_params(a.id(), 0x4FF);
  params.peer_to_peer = true;
  params.local_ca_guid = Guid(7);
  const Handle of_b = b.connect(params);
  ASSERT_TRUE(network.run());
  expect_one(a, of_a, b, of_b);
}

}  // namespace
}  // namespace wireup::cm
