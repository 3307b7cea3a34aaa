// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cm/cm_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Alternate paths between two established hosts: LAP and APR.
class AlternatePath : public testing::Test {
 protected:
  void establish(const Policy& policy) {
    b.engine().listen(kService, policy);
    ConnectParams params = a.connect_params(b.id(), 0x500);
    params.policy = policy;
    ours = a.connect(params);
    ASSERT_TRUE(network.run());
    ASSERT_EQ(b.all<Established>().size(), 1U);
    theirs = b.all<Established>()[0].handle;
  }
  static Policy taking(Timers timers = Timers::Adaptive) {
    Policy policy;
    policy.takes_alternate_paths = true;
    policy.timers = timers;
    return policy;
  }
  [[nodiscard]] LapParams lap_params(Duration limit = seconds(20)) const {
    LapParams params;
    params.path.slid = Lid(0x20);
    params.path.dlid = Lid(0x21);
    params.path.sl = Sl(3);
    params.path.rate = 7;
    params.path.packet_lifetime = 14;
    params.deadline = network.now() + limit;
    return params;
  }
  Result<> load(const LapParams& params) {
    auto result = a.engine().load_alternate(ours, params, network.now());
    a.flush();
    return result;
  }
  /// b's consumer answers each offer by this.
  void answer_by(mad::AprStatus status) {
    b.on_event = [this, status](const Event& event) {
      const auto* offered = event_as<AlternateOffered>(event);
      if (offered == nullptr) {
        return false;
      }
      AprParams apr;
      apr.status = status;
      EXPECT_TRUE(b.engine().answer_alternate(offered->handle, apr, network.now()));
      return true;
    };
  }

  Network network{6};
  Host a{network, 61};
  Host b{network, 62};
  Handle ours;
  Handle theirs;
};

TEST_F(AlternatePath, IsOfferedAndLoaded) {
  establish(taking());
  answer_by(mad::AprStatus::Loaded);
  EXPECT_EQ(a.engine().alternate_state(ours), AlternateState::Uninit);
  ASSERT_TRUE(load(lap_params()));
  EXPECT_EQ(a.engine().alternate_state(ours), AlternateState::Sent);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(b.all<AlternateOffered>().size(), 1U);
  const mad::Lap lap = b.all<AlternateOffered>()[0].lap;
  EXPECT_EQ(lap.alternate.local_lid, Lid(0x20));
  EXPECT_EQ(lap.alternate.remote_lid, Lid(0x21));
  EXPECT_EQ(lap.alternate.sl, Sl(3));
  EXPECT_EQ(lap.remote_qpn, a.all<RepReceived>()[0].rep.local_qpn);
  ASSERT_EQ(a.all<AlternateAnswered>().size(), 1U);
  EXPECT_EQ(a.all<AlternateAnswered>()[0].apr.status, 0);
  EXPECT_EQ(a.engine().alternate_state(ours), AlternateState::Idle);
  EXPECT_EQ(b.engine().alternate_state(theirs), AlternateState::Idle);
  EXPECT_EQ(a.engine().poll_timeout(), std::nullopt);
  EXPECT_EQ(b.engine().poll_timeout(), std::nullopt);
}

TEST_F(AlternatePath, AnAnswerOfAnotherExchangeIsIgnored) {
  establish(taking());
  b.on_event = [](const Event& event) { return event_as<AlternateOffered>(event) != nullptr; };
  ASSERT_TRUE(load(lap_params()));
  network.run_for(milliseconds(50));
  mad::Apr apr;
  apr.local_comm_id = a.all<RepReceived>()[0].rep.local_comm_id;
  apr.remote_comm_id = a.all<RepReceived>()[0].rep.remote_comm_id;
  const Tid asked = b.all<AlternateOffered>()[0].lap.tid;
  apr.tid = Tid(asked.value() ^ 1U);
  a.engine().handle_mad(Host::address_of(b.id()), mad::serialize(apr), network.now());
  EXPECT_EQ(a.engine().alternate_state(ours), AlternateState::Sent);
  // What a kernel's MAD layer does to the high half is no difference.
  apr.tid = Tid(asked.value() ^ 0xABCDEF0100000000ULL);
  a.engine().handle_mad(Host::address_of(b.id()), mad::serialize(apr), network.now());
  EXPECT_EQ(a.engine().alternate_state(ours), AlternateState::Idle);
}

TEST_F(AlternatePath, IsRefusedByAConsumerThatTakesNone) {
  establish(Policy{});
  ASSERT_TRUE(load(lap_params()));
  ASSERT_TRUE(network.run());
  EXPECT_TRUE(b.all<AlternateOffered>().empty());
  ASSERT_EQ(a.all<AlternateAnswered>().size(), 1U);
  EXPECT_EQ(a.all<AlternateAnswered>()[0].apr.status,
            static_cast<std::uint8_t>(mad::AprStatus::Unsupported));
  EXPECT_EQ(a.engine().state(ours), State::Established);
}

TEST_F(AlternatePath, ALostLapIsRepeatedAndALostAprIsGivenAgain) {
  establish(taking());
  answer_by(mad::AprStatus::Loaded);
  auto lose_lap = lose(a.id(), mad::CmKind::Lap);
  auto lose_apr = lose(b.id(), mad::CmKind::Apr);
  network.set_filter([=](Network::NodeId from, Network::NodeId to, const Datagram& datagram) {
    return lose_lap(from, to, datagram) || lose_apr(from, to, datagram);
  });
  ASSERT_TRUE(load(lap_params()));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.sent(mad::CmKind::Lap), 3U);
  EXPECT_EQ(b.sent(mad::CmKind::Apr), 2U);
  EXPECT_EQ(b.all<AlternateOffered>().size(), 1U) << "one path, offered once";
  EXPECT_EQ(a.all<AlternateAnswered>().size(), 1U);
}

TEST_F(AlternatePath, WithoutAnAnswerTheConnectionIsAsItWas) {
  establish(taking());
  network.set_filter(lose(a.id(), mad::CmKind::Lap, 1000));
  ASSERT_TRUE(load(lap_params(seconds(3))));
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<AlternateFailed>().size(), 1U);
  EXPECT_GT(a.all<AlternateFailed>()[0].attempts, 1U);
  EXPECT_EQ(a.engine().state(ours), State::Established);
  EXPECT_EQ(a.engine().alternate_state(ours), AlternateState::Idle);
  network.set_filter({});
  answer_by(mad::AprStatus::SlRefused);
  ASSERT_TRUE(load(lap_params()));
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<AlternateAnswered>().size(), 1U);
  EXPECT_EQ(a.all<AlternateAnswered>()[0].apr.status, 13);
}

TEST_F(AlternatePath, AConsumerThatDoesNotAnswerIsAnsweredFor) {
  Policy policy = taking();
  establish(policy);
  b.on_event = [](const Event& event) { return event_as<AlternateOffered>(event) != nullptr; };
  ASSERT_TRUE(load(lap_params(seconds(300))));
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<AlternateAnswered>().size(), 1U);
  EXPECT_EQ(a.all<AlternateAnswered>()[0].apr.status,
            static_cast<std::uint8_t>(mad::AprStatus::Rejected));
}

TEST_F(AlternatePath, AnMraMakesTheSenderPatient) {
  establish(taking());
  std::optional<Handle> open;
  b.on_event = [&](const Event& event) {
    const auto* offered = event_as<AlternateOffered>(event);
    if (offered == nullptr) {
      return false;
    }
    open = offered->handle;
    EXPECT_TRUE(b.engine().delay(offered->handle, IbTimeout(19), {}, network.now()));
    return true;
  };
  ASSERT_TRUE(load(lap_params(seconds(30))));
  network.run_for(seconds(1));
  ASSERT_TRUE(open.has_value());
  EXPECT_EQ(a.engine().alternate_state(ours), AlternateState::MraRcvd);
  EXPECT_EQ(b.engine().alternate_state(theirs), AlternateState::MraSent);
  ASSERT_EQ(a.all<MraReceived>().size(), 1U);
  EXPECT_EQ(a.all<MraReceived>()[0].message, mad::MraOf::Lap);
  const auto laps = a.sent(mad::CmKind::Lap);
  network.run_for(seconds(1));
  EXPECT_EQ(a.sent(mad::CmKind::Lap), laps) << "4.096 us * 2^19 are 2.1 s of patience";
  ASSERT_TRUE(b.engine().answer_alternate(*open, {}, network.now()));
  b.flush();
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.all<AlternateAnswered>().size(), 1U);
}

TEST_F(AlternatePath, CommandsOutOfPlaceAreRefused) {
  establish(taking());
  EXPECT_TRUE(
      b.engine().answer_alternate(theirs, {}, network.now()).error().is(Errc::InvalidState));
  ASSERT_TRUE(load(lap_params()));
  EXPECT_TRUE(load(lap_params()).error().is(Errc::InvalidState)) << "one at a time";
  LapParams late = lap_params();
  late.deadline = network.now();
  EXPECT_TRUE(
      b.engine().load_alternate(theirs, late, network.now()).error().is(Errc::InvalidArgument));
  LapParams fast = lap_params();
  fast.path.rate = 64;
  EXPECT_TRUE(
      b.engine().load_alternate(theirs, fast, network.now()).error().is(Errc::InvalidArgument));
  ASSERT_TRUE(a.disconnect(ours));
  EXPECT_TRUE(load(lap_params()).error().is(Errc::InvalidState));
  ASSERT_TRUE(network.run());
  EXPECT_TRUE(load(lap_params()).error().is(Errc::NotFound));
}

TEST_F(AlternatePath, ReleaseEndsALapUnderWay) {
  establish(taking());
  b.on_event = [](const Event& event) { return event_as<AlternateOffered>(event) != nullptr; };
  ASSERT_TRUE(load(lap_params()));
  ASSERT_TRUE(a.disconnect(ours));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(b.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.all<AlternateFailed>().size() + a.all<AlternateAnswered>().size(), 0U);
  EXPECT_EQ(a.engine().connections() + b.engine().connections(), 0U);
}

TEST_F(AlternatePath, AfterMigrationMessagesGoTheOtherWay) {
  establish(taking());
  answer_by(mad::AprStatus::Loaded);
  ASSERT_TRUE(load(lap_params()));
  ASSERT_TRUE(network.run());
  // The network carries by LID: a host under its second LID is the same host here.
  Address other = Host::address_of(b.id());
  other.sl = Sl(3);
  ASSERT_TRUE(a.engine().migrated(ours, other, network.now()));
  ASSERT_TRUE(a.engine().disconnect(ours, {}, network.now()));
  const auto dreq = a.engine().poll_transmit();
  ASSERT_TRUE(dreq.has_value());
  EXPECT_EQ(dreq->to, other);
}

/// The peer's CM may have another queue pair at its other port: the connection's names move along,
/// and none is left behind.
TEST_F(AlternatePath, AfterMigrationToAnotherQueuePairNoNameIsLeftBehind) {
  establish(taking());
  const mad::Req req = b.all<ReqReceived>()[0].req;
  const Address before = Host::address_of(a.id());
  Address after = before;
  after.qpn = Qpn(0x7001);
  ASSERT_TRUE(b.engine().migrated(theirs, after, network.now()));
  b.engine().handle_mad(after, mad::serialize(req), network.now());
  EXPECT_EQ(b.dropped(DropReason::Duplicate), 1U) << "known under its new address";
  b.engine().abandon(theirs, network.now());
  network.run_for(seconds(1));
  ASSERT_EQ(b.engine().connections(), 0U);
  for (const Address& from : {before, after}) {
    b.events.clear();
    b.on_event = [](const Event&) { return true; };
    b.engine().handle_mad(from, mad::serialize(req), network.now());
    b.flush();
    ASSERT_EQ(b.all<ReqReceived>().size(), 1U);
    b.engine().abandon(b.all<ReqReceived>()[0].handle, network.now());
  }
}

TEST_F(AlternatePath, MigrationOntoTheNameOfAnotherConnectionLeavesThatAlone) {
  establish(taking());
  mad::Req req = b.all<ReqReceived>()[0].req;
  Address after = Host::address_of(a.id());
  after.qpn = Qpn(0x7001);
  // The same ids, from where the first is about to move to; not answered.
  req.local_qpn = Qpn(0x501);
  b.on_event = [](const Event&) { return true; };
  b.engine().handle_mad(after, mad::serialize(req), network.now());
  b.flush();
  const Handle other = b.all<ReqReceived>().back().handle;
  ASSERT_EQ(b.engine().connections(), 2U);
  ASSERT_TRUE(b.engine().migrated(theirs, after, network.now()));
  b.engine().abandon(theirs, network.now());
  network.run_for(seconds(1));
  EXPECT_EQ(b.engine().state(other), State::ReqRcvd);
  b.engine().handle_mad(after, mad::serialize(req), network.now());
  EXPECT_EQ(b.dropped(DropReason::Duplicate), 1U) << "still found";
  b.engine().abandon(other, network.now());
  EXPECT_EQ(b.engine().connections(), 0U);
}

/// Any TID is one, zero too, and that of an own LAP is not that of a peer's.
TEST_F(AlternatePath, ALapIsNewWhateverItsTid) {
  establish(taking());
  answer_by(mad::AprStatus::Loaded);
  mad::Lap lap;
  lap.local_comm_id = a.all<RepReceived>()[0].rep.remote_comm_id;
  lap.remote_comm_id = a.all<RepReceived>()[0].rep.local_comm_id;
  lap.remote_qpn = a.all<RepReceived>()[0].rep.local_qpn;
  ASSERT_TRUE(b.engine().migrated(theirs, Host::address_of(a.id()), network.now()));
  for (unsigned round = 1; round <= 2; ++round) {
    b.engine().handle_mad(Host::address_of(a.id()), mad::serialize(lap), network.now());
    b.flush();
    EXPECT_EQ(b.all<AlternateOffered>().size(), round);
    EXPECT_EQ(b.sent(mad::CmKind::Apr), round);
    lap.tid = Tid(lap.tid.value() + 1);
  }
}

/// Copies of a REP make the RTU come again; the LAP has its own times.
TEST_F(AlternatePath, CopiesOfTheReplyDoNotPutTheLapOff) {
  establish(taking());
  const mad::Rep rep = a.all<RepReceived>()[0].rep;
  network.set_filter(lose(a.id(), mad::CmKind::Lap, 1000));
  ASSERT_TRUE(load(lap_params(seconds(20))));
  for (int i = 0; i < 300; ++i) {
    a.engine().handle_mad(Host::address_of(b.id()), mad::serialize(rep), network.now());
    a.flush();
    network.run_for(milliseconds(10));
  }
  EXPECT_GT(a.sent(mad::CmKind::Lap), 2U);
  EXPECT_EQ(a.sent(mad::CmKind::Rtu), 301U);
}

TEST_F(AlternatePath, ARefusalOfTheConnectionIsBelievedOnlyBeforeALapWasAnswered) {
  establish(taking());
  answer_by(mad::AprStatus::Loaded);
  mad::Rej rej;
  rej.local_comm_id = a.all<RepReceived>()[0].rep.local_comm_id;
  rej.remote_comm_id = a.all<RepReceived>()[0].rep.remote_comm_id;
  rej.message = mad::RejOf::Other;
  rej.reason = 28;
  ASSERT_TRUE(load(lap_params()));
  ASSERT_TRUE(network.run());
  a.engine().handle_mad(Host::address_of(b.id()), mad::serialize(rej), network.now());
  EXPECT_EQ(a.engine().state(ours), State::Established);

  Host c{network, 63};
  c.engine().listen(kService, taking());
  const Handle other = a.connect(c.id(), 0x501);
  ASSERT_TRUE(network.run());
  rej.local_comm_id = a.all<RepReceived>()[1].rep.local_comm_id;
  rej.remote_comm_id = a.all<RepReceived>()[1].rep.remote_comm_id;
  a.engine().handle_mad(Host::address_of(c.id()), mad::serialize(rej), network.now());
  a.flush();
  EXPECT_EQ(a.engine().state(other), State::Timewait);
  ASSERT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.all<Disconnected>()[0].cause, DisconnectCause::Rejected);
  EXPECT_EQ(a.all<Disconnected>()[0].reason, 28);
}

}  // namespace
}  // namespace wireup::cm
