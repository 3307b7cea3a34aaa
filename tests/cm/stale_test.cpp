// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cm/cm_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// a connects to b; then a restarts as `again`, which has the same port, CM
/// queue pair and channel adapter but has forgotten everything.
class Stale : public testing::Test {
 protected:
  void establish_old() {
    a.connect(b.id(), 0x500);
    ASSERT_TRUE(network.run());
    ASSERT_EQ(b.all<Established>().size(), 1U);
    old = b.all<Established>()[0].handle;
  }
  void restart_a() { a.engine() = Engine(Host::usual_config(), Rng(99)); }

  Network network{5};
  Host a{network, 51};
  Host b{network, 52};
  Handle old;
};

TEST_F(Stale, ARestartedPeerWithTheSameQueuePairEndsTheOldConnection) {
  establish_old();
  restart_a();
  network.run_for(seconds(2));  // beyond the guard
  a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<Rejected>().size(), 1U);
  EXPECT_EQ(a.all<Rejected>()[0].reason, 10);
  ASSERT_EQ(b.all<Disconnected>().size(), 1U) << "told once, although DREQ and DREP follow";
  EXPECT_EQ(b.all<Disconnected>()[0].handle, old);
  EXPECT_EQ(b.all<Disconnected>()[0].cause, DisconnectCause::Stale);
  EXPECT_EQ(b.sent(mad::CmKind::Dreq), 1U);
  EXPECT_EQ(a.sent(mad::CmKind::Drep), 1U) << "answered although unknown";
  EXPECT_EQ(b.engine().connections(), 0U);
  // TIMEWAIT is over on both sides: now it works.
  const Handle second = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.engine().state(second), State::Established);
}

TEST_F(Stale, AnotherQueuePairOfARestartedPeerIsNotStale) {
  establish_old();
  restart_a();
  network.run_for(seconds(2));
  const Handle second = a.connect(b.id(), 0x501);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.engine().state(second), State::Established);
  EXPECT_EQ(b.engine().state(old), State::Established);
}

TEST_F(Stale, AQueuePairThatRestsIsNotUsedTowardsItsPeer) {
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_TRUE(a.disconnect(handle));
  ASSERT_TRUE(network.run_until([&] { return a.all<Disconnected>().size() == 1; }));
  const auto again = a.engine().connect(a.connect_params(b.id(), 0x500), network.now());
  ASSERT_FALSE(again);
  EXPECT_TRUE(again.error().is(Errc::Busy));
  EXPECT_NE(again.error().what().find("0x000500"), std::string_view::npos);
  // Towards another peer it may be used at once, and towards this one when it has rested.
  Host c{network, 53};
  a.connect(c.id(), 0x500);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(c.all<Established>().size(), 1U);
  ASSERT_EQ(a.all<TimewaitExit>().size(), 1U);
  a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.all<Established>().size(), 2U);
}

TEST_F(Stale, AnAcceptingQueuePairThatRestsIsNotUsedTowardsItsPeer) {
  const Handle handle = b.connect(a.id(), 0x900);
  ASSERT_TRUE(network.run());
  const Qpn accepted = b.all<RepReceived>()[0].rep.local_qpn;
  ASSERT_TRUE(b.disconnect(handle));
  ASSERT_TRUE(network.run_until([&] { return a.all<Disconnected>().size() == 1; }));
  std::optional<Error> refusal;
  a.on_event = [&](const Event& event) {
    const auto* req = event_as<ReqReceived>(event);
    if (req == nullptr) {
      return false;
    }
    AcceptParams params = a.accept_params();
    params.qpn = accepted;
    const auto result = a.engine().accept(req->handle, params, network.now());
    EXPECT_FALSE(result);
    refusal = result ? Error() : result.error();
    EXPECT_TRUE(a.engine().reject(req->handle, mad::RejReason::NoResources, {}, {}, network.now()));
    return true;
  };
  b.connect(a.id(), 0x901, seconds(5));
  ASSERT_TRUE(network.run());
  ASSERT_TRUE(refusal.has_value());
  EXPECT_TRUE(refusal->is(Errc::Busy)) << refusal->what();
}

TEST_F(Stale, AQueuePairInTimewaitIsRefused) {
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_TRUE(a.disconnect(handle));
  ASSERT_TRUE(network.run_until([&] { return a.all<Disconnected>().size() == 1; }));
  restart_a();
  a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<Rejected>().size(), 1U);
  EXPECT_EQ(a.all<Rejected>()[0].reason, 10);
  EXPECT_EQ(a.all<TimewaitExit>().size(), 1U);
}

TEST_F(Stale, ALateCopyOfARequestDoesNoHarmInTimewait) {
  std::optional<Datagram> copy;
  network.set_filter([&](Network::NodeId, Network::NodeId, const Datagram& datagram) {
    if (datagram.kind == mad::CmKind::Req && !copy.has_value()) {
      copy = datagram;
    }
    return false;
  });
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_TRUE(a.disconnect(handle));
  ASSERT_TRUE(network.run_until([&] { return b.all<Disconnected>().size() == 1; }));
  b.deliver(*copy, network.now());
  EXPECT_EQ(b.sent(mad::CmKind::Rej), 1U);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.all<ReqReceived>().size(), 1U);
  EXPECT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.engine().connections() + b.engine().connections(), 0U);
}

TEST_F(Stale, AReplyWithAQueuePairInUseIsRefused) {
  establish_old();
  // b answers a second connect with the queue pair of the first.
  b.on_event = [&](const Event& event) {
    if (const auto* req = event_as<ReqReceived>(event)) {
      AcceptParams params = b.accept_params();
      params.qpn = Qpn(0x800000);
      EXPECT_TRUE(b.engine().accept(req->handle, params, network.now()));
      return true;
    }
    return false;
  };
  network.run_for(seconds(2));
  a.connect(b.id(), 0x501, seconds(5));
  network.run_for(milliseconds(1));
  ASSERT_EQ(b.all<Rejected>().size(), 1U);
  EXPECT_EQ(b.all<Rejected>()[0].reason, 10);
  EXPECT_EQ(a.all<Disconnected>()[0].cause, DisconnectCause::Stale);
}

TEST_F(Stale, TwoOffersOfOneQueuePairCannotBothBeAccepted) {
  std::vector<Handle> offers;
  b.on_event = [&](const Event& event) {
    if (const auto* req = event_as<ReqReceived>(event)) {
      offers.push_back(req->handle);
      return true;
    }
    return false;
  };
  a.connect(b.id(), 0x500);
  a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run_until([&] { return offers.size() == 2; }));
  EXPECT_TRUE(b.accept(offers[0]));
  const auto second = b.accept(offers[1]);
  ASSERT_FALSE(second);
  EXPECT_TRUE(second.error().is(Errc::Stale));
}

}  // namespace
}  // namespace wireup::cm
