// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cm/cm_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Drops everything that `from` sends.
auto silence(Network::NodeId from) {
  return [=](Network::NodeId sender, Network::NodeId, const Datagram&) { return sender == from; };
}

class Failure : public testing::Test {
 protected:
  void expect_nothing_left() {
    EXPECT_EQ(a.engine().connections(), 0U);
    EXPECT_EQ(b.engine().connections(), 0U);
    EXPECT_EQ(a.engine().poll_timeout(), std::nullopt);
    EXPECT_EQ(b.engine().poll_timeout(), std::nullopt);
  }

  Network network{2};
  Host a{network, 21};
  Host b{network, 22};
};

TEST_F(Failure, ADeadPeerIsGivenUpAtTheDeadline) {
  network.set_filter(silence(b.id()));
  b.on_event = [](const Event&) { return true; };  // never answers its offers either
  const Instant start = network.now();
  const Handle handle = a.connect(b.id(), 0x500, seconds(10));
  ASSERT_TRUE(network.run_until([&] { return !a.events.empty(); }));
  ASSERT_EQ(a.all<Failed>().size(), 1U);
  const Failed failed = a.all<Failed>()[0];
  EXPECT_EQ(failed.handle, handle);
  EXPECT_EQ(failed.step, Step::Reply);
  EXPECT_EQ(network.now() - start, seconds(10));
  // 0.5 s, then doubling, all within 20 per cent: at 0, 0.5, 1.5, 3.5, 7.5 s.
  EXPECT_EQ(failed.attempts, 5U);
  EXPECT_EQ(a.sent(mad::CmKind::Req), 5U);
  EXPECT_EQ(a.sent(mad::CmKind::Rej), 1U) << "tells the peer";
  EXPECT_EQ(a.engine().counters().failed, 1U);
  // The REJ reaches b, which knows the connection by GUID and id only.
  ASSERT_TRUE(network.run());
  ASSERT_EQ(b.all<Rejected>().size(), 1U);
  EXPECT_EQ(b.all<Rejected>()[0].reason, 4);
  expect_nothing_left();
}

TEST_F(Failure, AReplyThatNeverArrivesFailsBothSides) {
  network.set_filter(lose(b.id(), mad::CmKind::Rep, 1000));
  a.connect(b.id(), 0x500, seconds(5));
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<Failed>().size(), 1U);
  EXPECT_EQ(a.all<Failed>()[0].step, Step::Reply);
  EXPECT_EQ(b.all<Rejected>().size(), 1U) << "told by REJ(timeout)";
  EXPECT_EQ(b.all<Established>().size(), 0U);
  EXPECT_EQ(network.now() - Instant(seconds(1)) < seconds(6), true);
  expect_nothing_left();
}

TEST_F(Failure, AnRtuThatNeverArrivesEndsBothSides) {
  network.set_filter(lose(a.id(), mad::CmKind::Rtu, 1000));
  b.on_event = [&](const Event& event) {
    if (const auto* req = event_as<ReqReceived>(event)) {
      AcceptParams params = b.accept_params();
      params.deadline = network.now() + seconds(4);
      EXPECT_TRUE(b.engine().accept(req->handle, params, network.now()));
      return true;
    }
    return false;
  };
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(b.all<Failed>().size(), 1U);
  EXPECT_EQ(b.all<Failed>()[0].step, Step::ReadyToUse);
  EXPECT_GE(b.all<Failed>()[0].attempts, 3U);
  ASSERT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.all<Disconnected>()[0].handle, handle);
  EXPECT_EQ(a.all<Disconnected>()[0].cause, DisconnectCause::Rejected);
  expect_nothing_left();
}

TEST_F(Failure, AConsumerThatNeverAnswersAnOfferRefusesIt) {
  Config config = Host::usual_config();
  config.offer_deadline = seconds(2);
  Host c{network, 23, config};
  c.on_event = [](const Event&) { return true; };
  a.connect(c.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(c.all<Failed>().size(), 1U);
  EXPECT_EQ(c.all<Failed>()[0].step, Step::Accept);
  EXPECT_EQ(c.all<Failed>()[0].attempts, 0U);
  ASSERT_EQ(a.all<Rejected>().size(), 1U);
  EXPECT_EQ(a.all<Rejected>()[0].reason, 4);
  EXPECT_EQ(c.engine().connections(), 0U);
}

TEST_F(Failure, AConsumerThatNeverEstablishesFailsAtItsOwnDeadline) {
  a.on_event = [](const Event& event) { return event_as<RepReceived>(event) != nullptr; };
  a.connect(b.id(), 0x500, seconds(3));
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<Failed>().size(), 1U);
  EXPECT_EQ(a.all<Failed>()[0].step, Step::Establish);
  ASSERT_EQ(b.all<Rejected>().size(), 1U);
  EXPECT_EQ(b.all<Established>().size(), 0U);
  expect_nothing_left();
}

TEST_F(Failure, AReleaseWithoutAnAnswerEndsAtItsDeadline) {
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  network.set_filter(silence(b.id()));
  const Instant start = network.now();
  ASSERT_TRUE(a.disconnect(handle));
  ASSERT_TRUE(network.run_until([&] { return a.all<Disconnected>().size() == 1; }));
  EXPECT_EQ(a.all<Disconnected>()[0].cause, DisconnectCause::Timeout);
  EXPECT_EQ(network.now() - start, seconds(10));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.all<Disconnected>().size(), 1U);
  expect_nothing_left();
}

TEST_F(Failure, AReleaseOfWhatThePeerForgotIsAnswered) {
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  b.engine().abandon(b.all<Established>()[0].handle, network.now());
  b.flush();
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.all<Disconnected>().size(), 0U) << "abandoned without an event";
  EXPECT_EQ(b.all<TimewaitExit>().size(), 1U);
  ASSERT_TRUE(a.disconnect(handle));
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.all<Disconnected>()[0].cause, DisconnectCause::ByUs);
  EXPECT_EQ(a.sent(mad::CmKind::Dreq), 1U);
  expect_nothing_left();
}

TEST_F(Failure, AReplyToAnAbandonedConnectIsRefused) {
  const Handle handle = a.connect(b.id(), 0x500);
  a.engine().abandon(handle, network.now());
  ASSERT_TRUE(network.run());
  EXPECT_TRUE(a.events.empty());
  ASSERT_EQ(b.all<Rejected>().size(), 1U);
  EXPECT_EQ(b.all<Rejected>()[0].reason, 6);
  expect_nothing_left();
}

TEST_F(Failure, CallingAConnectOffTellsThePeer) {
  b.on_event = [](const Event& event) { return event_as<ReqReceived>(event) != nullptr; };
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run_until([&] { return !b.events.empty(); }));
  std::array<std::uint8_t, 8> guid{};
  store_be(guid, 0, 8, a.guid().value());
  ASSERT_TRUE(a.engine().reject(handle, mad::RejReason::Timeout, guid, {}, network.now()));
  a.flush();
  ASSERT_TRUE(network.run());
  ASSERT_EQ(b.all<Rejected>().size(), 1U);
  expect_nothing_left();
}

TEST_F(Failure, NoRoomIsSilenceAndHealsItself) {
  Config config = Host::usual_config();
  config.max_connections = 2;
  Host c{network, 23, config};
  std::vector<Handle> handles;
  for (std::uint32_t i = 0; i < 3; ++i) {
    handles.push_back(a.connect(c.id(), 0x500 + i));
  }
  network.run_for(milliseconds(300));
  EXPECT_EQ(c.all<Established>().size(), 2U);
  EXPECT_EQ(c.dropped(DropReason::NoRoom), 1U);
  EXPECT_EQ(a.all<Rejected>().size(), 0U);
  const auto full = c.engine().connect(c.connect_params(a.id(), 0x900), network.now());
  ASSERT_FALSE(full);
  EXPECT_TRUE(full.error().is(Errc::Busy));
  ASSERT_TRUE(a.disconnect(handles[0]));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(c.all<Established>().size(), 3U);
}

TEST_F(Failure, TimewaitFollowsThePathWhenNotConfigured) {
  Config config;
  Host c{network, 23, config};
  Host d{network, 24, config};
  const Handle handle = c.connect(d.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_TRUE(c.disconnect(handle));
  ASSERT_TRUE(network.run_until([&] { return c.all<Disconnected>().size() == 1; }));
  const Instant start = network.now();
  ASSERT_TRUE(network.run());
  // Exponent 16: lifetime 14 twice and the ACK delay 15.
  EXPECT_EQ(network.now() - start, Duration(4096LL << 16));
}

}  // namespace
}  // namespace wireup::cm
