// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cm/cm_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// a ──── b, two hosts on a network without faults unless a test adds some.
class Handshake : public testing::Test {
 protected:
  /// Everything has ended: no connection, no timer.
  void expect_nothing_left() {
    EXPECT_EQ(a.engine().connections(), 0U);
    EXPECT_EQ(b.engine().connections(), 0U);
    EXPECT_EQ(a.engine().poll_timeout(), std::nullopt);
    EXPECT_EQ(b.engine().poll_timeout(), std::nullopt);
  }

  Network network{1};
  Host a{network, 11};
  Host b{network, 12};
};

TEST_F(Handshake, TakesThreeMessagesAndTheReleaseTwo) {
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.engine().state(handle), State::Established);
  ASSERT_EQ(b.all<Established>().size(), 1U);
  EXPECT_EQ(network.stats().sent, 3U);
  EXPECT_EQ(a.sent(mad::CmKind::Req), 1U);
  EXPECT_EQ(b.sent(mad::CmKind::Rep), 1U);
  EXPECT_EQ(a.sent(mad::CmKind::Rtu), 1U);
  EXPECT_EQ(a.engine().poll_timeout(), std::nullopt) << "an idle connection has no timer";
  EXPECT_EQ(b.engine().poll_timeout(), std::nullopt);

  ASSERT_TRUE(a.disconnect(handle));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(network.stats().sent, 5U);
  ASSERT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.all<Disconnected>()[0].cause, DisconnectCause::ByUs);
  ASSERT_EQ(b.all<Disconnected>().size(), 1U);
  EXPECT_EQ(b.all<Disconnected>()[0].cause, DisconnectCause::ByPeer);
  ASSERT_EQ(a.all<TimewaitExit>().size(), 1U);
  EXPECT_EQ(a.all<TimewaitExit>()[0].local_qpn, Qpn(0x500));
  EXPECT_EQ(b.all<TimewaitExit>().size(), 1U);
  expect_nothing_left();
}

TEST_F(Handshake, CarriesWhatEachSideGives) {
  ConnectParams params = a.connect_params(b.id(), 0x512);
  params.responder_resources = 4;
  params.initiator_depth = 2;
  params.srq = true;
  params.retry_count = mad::RetryCount(5);
  params.rnr_retry_count = mad::RnrRetryCount(3);
  params.path.sl = Sl(7);
  params.path.hop_limit = 64;
  const std::array<std::uint8_t, 3> ours = {1, 2, 3};
  params.private_data = *BoundedBytes<92>::make(ours);
  b.on_event = [&](const Event& event) {
    if (const auto* req = event_as<ReqReceived>(event)) {
      AcceptParams answer = b.accept_params();
      answer.responder_resources = 2;
      answer.initiator_depth = 4;
      answer.rnr_retry_count = mad::RnrRetryCount(1);
      const std::array<std::uint8_t, 2> theirs = {9, 8};
      answer.private_data = *BoundedBytes<196>::make(theirs);
      EXPECT_TRUE(b.engine().accept(req->handle, answer, network.now()));
      return true;
    }
    return false;
  };
  a.on_event = [&](const Event& event) {
    if (const auto* rep = event_as<RepReceived>(event)) {
      const std::array<std::uint8_t, 1> last = {0x77};
      EXPECT_TRUE(a.engine().establish(rep->handle, last, network.now()));
      return true;
    }
    return false;
  };
  a.connect(params);
  ASSERT_TRUE(network.run());

  ASSERT_EQ(b.all<ReqReceived>().size(), 1U);
  const mad::Req req = b.all<ReqReceived>()[0].req;
  EXPECT_EQ(b.all<ReqReceived>()[0].from, Host::address_of(a.id()));
  EXPECT_EQ(req.local_qpn, Qpn(0x512));
  EXPECT_EQ(req.starting_psn, params.starting_psn);
  EXPECT_EQ(req.responder_resources, 4);
  EXPECT_EQ(req.initiator_depth, 2);
  EXPECT_TRUE(req.srq);
  EXPECT_EQ(req.retry_count, mad::RetryCount(5));
  EXPECT_EQ(req.rnr_retry_count, mad::RnrRetryCount(3));
  EXPECT_EQ(req.pkey, PKey(0xFFFF));
  EXPECT_EQ(req.path_mtu, mad::CmMtu(5));
  EXPECT_EQ(req.primary.packet_rate, mad::CmRate(7));
  EXPECT_EQ(req.primary.sl, Sl(7));
  EXPECT_EQ(req.primary.local_lid, params.path.slid);
  EXPECT_EQ(req.primary.remote_lid, params.path.dlid);
  EXPECT_FALSE(req.primary.subnet_local) << "hop limit 64";
  // Lifetime 14 makes 15 for the round trip; the ACK delay of 15 is within a
  // factor of two.
  EXPECT_EQ(req.primary.local_ack_timeout, IbTimeout(16));
  EXPECT_EQ(req.private_data[2], 3);
  EXPECT_EQ(req.private_data[3], 0);

  ASSERT_EQ(a.all<RepReceived>().size(), 1U);
  const mad::Rep rep = a.all<RepReceived>()[0].rep;
  EXPECT_EQ(rep.tid, req.tid);
  EXPECT_EQ(rep.remote_comm_id, req.local_comm_id);
  EXPECT_EQ(rep.local_ca_guid, b.guid());
  EXPECT_EQ(rep.responder_resources, 2);
  EXPECT_EQ(rep.initiator_depth, 4);
  EXPECT_EQ(rep.rnr_retry_count, mad::RnrRetryCount(1));
  EXPECT_EQ(rep.private_data[1], 8);
  ASSERT_EQ(b.all<Established>().size(), 1U);
  EXPECT_EQ(b.all<Established>()[0].private_data[0], 0x77);
}

struct Lost {
  const char* name;
  bool by_active;
  mad::CmKind kind;
  /// Messages in all: five, the lost one, and what its loss makes others
  /// repeat.
  std::uint64_t least;
  std::uint64_t most;
};
void PrintTo(const Lost& lost, std::ostream* out) {
  *out << lost.name;
}

class LostMessage : public Handshake, public testing::WithParamInterface<Lost> {};

TEST_P(LostMessage, IsMadeUpFor) {
  const Lost& lost = GetParam();
  network.set_filter(lose(lost.by_active ? a.id() : b.id(), lost.kind));
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.engine().state(handle), State::Established);
  ASSERT_EQ(b.all<Established>().size(), 1U);
  ASSERT_EQ(b.all<ReqReceived>().size(), 1U) << "a repeated REQ is no second offer";
  ASSERT_TRUE(a.disconnect(handle));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(network.stats().filtered, 1U);
  EXPECT_GE(network.stats().sent, lost.least);
  EXPECT_LE(network.stats().sent, lost.most);
  EXPECT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.all<Disconnected>()[0].cause, DisconnectCause::ByUs);
  EXPECT_EQ(b.all<Disconnected>().size(), 1U);
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Each, LostMessage,
                         testing::Values(Lost{"req", true, mad::CmKind::Req, 6, 6},
                                         // REP lost: the REP comes again by b's timer, or by a's
                                         // REQ if that is first.
                                         Lost{"rep", false, mad::CmKind::Rep, 6, 7},
                                         // RTU lost: REP again, RTU again.
                                         Lost{"rtu", true, mad::CmKind::Rtu, 7, 7},
                                         Lost{"dreq", true, mad::CmKind::Dreq, 6, 6},
                                         // DREP lost: DREQ again, answered out of TIMEWAIT.
                                         Lost{"drep", false, mad::CmKind::Drep, 7, 7}),
                         [](const auto& lost) { return std::string(lost.param.name); });

TEST_F(Handshake, ADuplicateOfEachMessageChangesNothing) {
  network.set_faults({.duplicate_percent = 100});
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_TRUE(a.disconnect(handle));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.all<ReqReceived>().size(), 1U);
  EXPECT_EQ(a.all<RepReceived>().size(), 1U);
  EXPECT_EQ(b.all<Established>().size(), 1U);
  EXPECT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(b.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.all<Rejected>().size(), 0U);
  expect_nothing_left();
}

TEST_F(Handshake, BothMayReleaseAtOnce) {
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_TRUE(a.disconnect(handle));
  ASSERT_TRUE(b.disconnect(b.all<Established>()[0].handle));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(b.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.retransmitted_in_all() + b.retransmitted_in_all(), 0U);
  expect_nothing_left();
}

TEST_F(Handshake, DataMayComeBeforeTheRtu) {
  network.set_filter(lose(a.id(), mad::CmKind::Rtu, 1000));
  a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run_until([&] { return b.sent(mad::CmKind::Rep) == 1; }));
  const Handle handle = b.all<ReqReceived>()[0].handle;
  ASSERT_TRUE(b.engine().notify_established(handle, network.now()));
  b.flush();
  ASSERT_EQ(b.all<Established>().size(), 1U);
  const auto again = b.engine().notify_established(handle, network.now());
  ASSERT_FALSE(again);
  EXPECT_TRUE(again.error().is(Errc::InvalidState));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.engine().state(handle), State::Established);
}

TEST_F(Handshake, AReleaseThatOvertakesTheRtuEndsAnEstablishedConnection) {
  network.set_filter(lose(a.id(), mad::CmKind::Rtu, 1000));
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run_until([&] { return a.sent(mad::CmKind::Rtu) == 1; }));
  ASSERT_TRUE(a.disconnect(handle));
  ASSERT_TRUE(network.run());
  ASSERT_EQ(b.all<Established>().size(), 1U);
  ASSERT_EQ(b.all<Disconnected>().size(), 1U);
  EXPECT_EQ(b.all<Failed>().size(), 0U);
  expect_nothing_left();
}

TEST_F(Handshake, ARefusalEndsBothSidesAtOnce) {
  b.on_event = [&](const Event& event) {
    if (const auto* req = event_as<ReqReceived>(event)) {
      const std::array<std::uint8_t, 2> ari = {0xCA, 0xFE};
      const std::array<std::uint8_t, 1> why = {0x33};
      EXPECT_TRUE(
          b.engine().reject(req->handle, mad::RejReason::ConsumerReject, ari, why, network.now()));
      return true;
    }
    return false;
  };
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<Rejected>().size(), 1U);
  const Rejected rejected = a.all<Rejected>()[0];
  EXPECT_EQ(rejected.handle, handle);
  EXPECT_EQ(rejected.reason, 28);
  ASSERT_EQ(rejected.ari.size(), 2U);
  EXPECT_EQ(rejected.ari.span()[1], 0xFE);
  EXPECT_EQ(rejected.private_data[0], 0x33);
  EXPECT_EQ(network.stats().sent, 2U);
  expect_nothing_left();
  EXPECT_EQ(a.engine().state(handle), std::nullopt);
}

TEST_F(Handshake, NobodyListeningIsARefusal) {
  b.engine().unlisten(kService);
  a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<Rejected>().size(), 1U);
  EXPECT_EQ(a.all<Rejected>()[0].reason, 8);
  EXPECT_EQ(b.all<ReqReceived>().size(), 0U);
  expect_nothing_left();
}

TEST_F(Handshake, ARefusedReplyEndsTheAcceptingSide) {
  a.on_event = [&](const Event& event) {
    if (const auto* rep = event_as<RepReceived>(event)) {
      EXPECT_TRUE(
          a.engine().reject(rep->handle, mad::RejReason::NoResources, {}, {}, network.now()));
      return true;
    }
    return false;
  };
  a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(b.all<Rejected>().size(), 1U);
  EXPECT_EQ(b.all<Rejected>()[0].reason, 3);
  EXPECT_EQ(b.all<Established>().size(), 0U);
  expect_nothing_left();
}

TEST_F(Handshake, ADelayedAnswerIsNotAskedForAgain) {
  b.on_event = [&](const Event& event) {
    if (const auto* req = event_as<ReqReceived>(event)) {
      // 4.3 s; the REQ's own interval would be about 0.5 s.
      EXPECT_TRUE(b.engine().delay(req->handle, IbTimeout(20), {}, network.now()));
      const Handle offered = req->handle;
      network.at(network.now() + seconds(3), [this, offered] {
        EXPECT_TRUE(b.accept(offered));
        b.flush();
      });
      return true;
    }
    return false;
  };
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.engine().state(handle), State::Established);
  EXPECT_EQ(network.stats().sent, 4U) << "REQ, MRA, REP, RTU";
  EXPECT_EQ(a.engine().request_round_trip(), std::nullopt) << "a delayed answer is no round trip";
}

TEST_F(Handshake, HandlesAndStatesOfCommandsAreChecked) {
  const auto none = a.engine().establish(Handle{7, 7}, {}, network.now());
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().is(Errc::NotFound));
  const Handle handle = a.connect(b.id(), 0x500);
  const auto early = a.engine().establish(handle, {}, network.now());
  ASSERT_FALSE(early);
  EXPECT_TRUE(early.error().is(Errc::InvalidState));
  EXPECT_NE(early.error().what().find("REQ_SENT"), std::string_view::npos);
  ASSERT_TRUE(network.run());
  const std::vector<std::uint8_t> large(221);
  const auto too_large = a.engine().disconnect(handle, large, network.now());
  ASSERT_FALSE(too_large);
  EXPECT_TRUE(too_large.error().is(Errc::InvalidArgument));
  EXPECT_EQ(a.engine().state(handle), State::Established);

  ConnectParams params = a.connect_params(b.id(), 0x501);
  params.deadline = network.now();
  EXPECT_FALSE(a.engine().connect(params, network.now()));
  params = a.connect_params(b.id(), 0x501);
  params.path.rate = 64;
  EXPECT_FALSE(a.engine().connect(params, network.now()));
}

TEST_F(Handshake, ManyAtOnceStayApart) {
  for (std::uint32_t i = 0; i < 1000; ++i) {
    a.connect(b.id(), 0x500 + i);
  }
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.all<Established>().size(), 1000U);
  EXPECT_EQ(network.stats().sent, 3000U);
}

}  // namespace
}  // namespace wireup::cm
