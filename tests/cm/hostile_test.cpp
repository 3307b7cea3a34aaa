// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cm/cm_host.hpp"
#include "mad/class_port_info.hpp"

namespace wireup::cm {
namespace {

/// An established connection between a and b, and messages that are not the
/// peer's.
class Hostile : public testing::Test {
 protected:
  void SetUp() override {
    handle = a.connect(b.id(), 0x500);
    ASSERT_TRUE(network.run());
    passive = b.all<Established>()[0].handle;
    req = b.all<ReqReceived>()[0].req;
    rep = a.all<RepReceived>()[0].rep;
  }
  /// Gives b a message as if `from` had sent it; it must not matter.
  template <typename M>
  void expect_ignored(const M& message, const Address& from, DropReason reason) {
    const std::size_t events = b.events.size();
    const auto dropped = b.dropped(reason);
    b.engine().handle_mad(from, mad::serialize(message), network.now());
    b.flush();
    EXPECT_EQ(b.events.size(), events);
    EXPECT_EQ(b.dropped(reason), dropped + 1) << drop_reason_name(reason);
    EXPECT_EQ(b.engine().state(passive), State::Established);
  }
  [[nodiscard]] mad::Dreq dreq() const {
    mad::Dreq message;
    message.tid = Tid(1);
    message.local_comm_id = req.local_comm_id;
    message.remote_comm_id = rep.local_comm_id;
    message.remote_qpn = rep.local_qpn;
    return message;
  }

  Network network{6};
  Host a{network, 61};
  Host b{network, 62};
  Handle handle;
  Handle passive;
  mad::Req req;
  mad::Rep rep;
};

TEST_F(Hostile, ForeignSourcesAreIgnored) {
  Address other_port = Host::address_of(a.id());
  other_port.dlid = Lid(77);
  expect_ignored(dreq(), other_port, DropReason::WrongSource);
  Address other_rank = Host::address_of(a.id());
  other_rank.qpn = Qpn(0x77);
  expect_ignored(dreq(), other_rank, DropReason::WrongSource);
  mad::Rej rej;
  rej.local_comm_id = req.local_comm_id;
  rej.remote_comm_id = rep.local_comm_id;
  rej.reason = 28;
  expect_ignored(rej, other_rank, DropReason::WrongSource);
}

TEST_F(Hostile, ForeignIdsAreIgnored) {
  const Address from = Host::address_of(a.id());
  mad::Dreq wrong_qpn = dreq();
  wrong_qpn.remote_qpn = Qpn(1);
  expect_ignored(wrong_qpn, from, DropReason::WrongQpn);
  mad::Dreq wrong_peer = dreq();
  wrong_peer.local_comm_id = CommId(req.local_comm_id.value() + 1);
  expect_ignored(wrong_peer, from, DropReason::UnknownConnection);
  EXPECT_EQ(b.sent(mad::CmKind::Drep), 1U) << "unknown releases are answered";
  mad::Rtu rtu;
  rtu.local_comm_id = req.local_comm_id;
  rtu.remote_comm_id = CommId(12345);
  expect_ignored(rtu, from, DropReason::UnknownConnection);
  mad::Rej unknown;
  unknown.reason = 4;
  expect_ignored(unknown, from, DropReason::UnknownConnection);
}

TEST_F(Hostile, AResponseToNobodyIsIgnored) {
  const Address from = Host::address_of(a.id());
  mad::Drep drep;
  drep.local_comm_id = req.local_comm_id;
  drep.remote_comm_id = rep.local_comm_id;
  expect_ignored(drep, from, DropReason::UnexpectedState);
  mad::Mra mra;
  mra.local_comm_id = req.local_comm_id;
  mra.remote_comm_id = rep.local_comm_id;
  mra.message = mad::MraOf::Reserved;
  expect_ignored(mra, from, DropReason::UnexpectedState);
}

TEST_F(Hostile, BytesThatAreNoMessageAreCounted) {
  const Address from = Host::address_of(a.id());
  std::array<std::uint8_t, 100> few{};
  b.engine().handle_mad(from, few, network.now());
  b.engine().handle_mad(from, {}, network.now());
  mad::Mad unknown = mad::serialize(dreq());
  unknown[17] = 0x1B;
  b.engine().handle_mad(from, unknown, network.now());
  EXPECT_EQ(b.dropped(DropReason::Malformed), 3U);
  mad::Req nobody = req;
  nobody.local_comm_id = CommId{};
  b.engine().handle_mad(from, mad::serialize(nobody), network.now());
  EXPECT_EQ(b.dropped(DropReason::Malformed), 4U);
}

TEST_F(Hostile, AMovedLidWithTheSameGidIsThePeer) {
  Address before = Host::address_of(a.id());
  before.has_grh = true;
  before.dgid = Gid::make(0xFE80000000000000ULL, Guid(1));
  Address after = before;
  after.dlid = Lid(99);
  EXPECT_TRUE(is_same_source(before, after));
  after.dgid = Gid::make(0xFE80000000000000ULL, Guid(2));
  EXPECT_FALSE(is_same_source(before, after));
}

/// Behind a router, and on RoCE, many peers have one LID, and all of their CMs may be QP 1.
TEST_F(Hostile, PeersBehindOneRouterAreNotTheSame) {
  Address one = Host::address_of(a.id());
  one.has_grh = true;
  one.dgid = Gid::make(0xFEC0000000000001ULL, Guid(1));
  Address other = one;
  other.dgid = Gid::make(0xFEC0000000000001ULL, Guid(2));
  EXPECT_FALSE(is_same_source(one, other));
  EXPECT_TRUE(is_same_source(one, one));
  // Who sends without a GRH is known by the LID alone.
  other.has_grh = false;
  EXPECT_TRUE(is_same_source(one, other));
}

TEST_F(Hostile, TwoPeersBehindOneRouterMayAskUnderTheSameId) {
  b.engine().serve(kService);
  mad::SidrReq question;
  question.request_id = CommId(5);
  question.service_id = kService;
  Address asker = Host::address_of(a.id());
  asker.has_grh = true;
  asker.dgid = Gid::make(0xFEC0000000000001ULL, Guid(1));
  b.engine().handle_mad(asker, mad::serialize(question), network.now());
  asker.dgid = Gid::make(0xFEC0000000000001ULL, Guid(2));
  b.engine().handle_mad(asker, mad::serialize(question), network.now());
  b.flush();
  EXPECT_EQ(b.sidr_events.size(), 2U);
  EXPECT_EQ(b.dropped(DropReason::Duplicate), 0U);
  // The same one again is a copy, also when its LID has changed.
  asker.dlid = Lid(99);
  b.engine().handle_mad(asker, mad::serialize(question), network.now());
  EXPECT_EQ(b.dropped(DropReason::Duplicate), 1U);
}

/// Only Get(ClassPortInfo) is a question; whatever else names the attribute is no message of ours.
TEST_F(Hostile, OtherMethodsOfClassPortInfoAreDropped) {
  mad::Header header;
  header.mgmt_class = 0x07;
  header.class_version = 2;
  header.attribute_id = mad::kClassPortInfoAttribute;
  std::uint64_t drops = 0;
  for (unsigned method = 0; method < 256; ++method) {
    if (method == 0x01) {
      continue;
    }
    header.method = static_cast<std::uint8_t>(method);
    mad::Mad bytes{};
    mad::serialize(header, std::span(bytes));
    b.engine().handle_mad(Host::address_of(a.id()), bytes, network.now());
    ASSERT_EQ(b.dropped(DropReason::Malformed), ++drops) << "method " << method;
    ASSERT_FALSE(b.engine().poll_transmit().has_value()) << "method " << method;
  }
  EXPECT_EQ(b.engine().counters().class_port_infos, 0U);
}

/// A service timeout of 2.4 hours, again and again: the peer's patience is the peer's, the deadline
/// is ours.
TEST_F(Hostile, PatienceWithoutEndDoesNotMoveTheDeadline) {
  network.set_filter(lose(a.id(), mad::CmKind::Req));
  const Handle waiting = a.connect(b.id(), 0x501, std::chrono::seconds(20));
  mad::Mra mra;
  mra.local_comm_id = CommId(1);
  mra.remote_comm_id = CommId(0);
  mra.service_timeout = IbTimeout(31);
  std::optional<mad::Req> sent;
  network.set_filter([&](Network::NodeId, Network::NodeId, const Datagram& datagram) {
    const auto message = mad::parse_cm(datagram.bytes);
    if (message && std::holds_alternative<mad::Req>(*message)) {
      sent = std::get<mad::Req>(*message);
    }
    return true;
  });
  network.run_for(std::chrono::seconds(5));
  ASSERT_TRUE(sent.has_value());
  mra.remote_comm_id = sent->local_comm_id;
  for (int i = 0; i < 10; ++i) {
    a.engine().handle_mad(Host::address_of(b.id()), mad::serialize(mra), network.now());
    a.flush();
    network.run_for(std::chrono::seconds(1));
  }
  EXPECT_EQ(a.engine().state(waiting), State::MraReqRcvd);
  network.run_for(std::chrono::seconds(6));
  EXPECT_EQ(a.engine().state(waiting), std::nullopt);
  EXPECT_EQ(a.all<Failed>().size(), 1U);
}

/// Whatever a user configured, the arithmetic of the timers has no overflow (the sanitizers look).
TEST_F(Hostile, AnyConfigurationRuns) {
  for (const Duration extreme : {Duration::max(), Duration::min(), Duration::zero()}) {
    Network other{9};
    Config config = Host::usual_config();
    config.initial_rto = config.min_rto = config.max_rto = extreme;
    config.offer_deadline = config.rtu_deadline = config.disconnect_deadline = extreme;
    config.max_timewait = config.stale_guard = extreme;
    config.timewait = extreme;
    config.jitter_percent = ~0U;
    Host c{other, 91, config};
    Host d{other, 92, Host::usual_config()};
    const Handle one = c.connect(d.id(), 0x500, std::chrono::seconds(5));
    other.run_for(std::chrono::milliseconds(100));
    EXPECT_EQ(c.engine().state(one), State::Established);
    d.connect(c.id(), 0x600, std::chrono::seconds(5));
    other.run_for(std::chrono::seconds(10));
    EXPECT_TRUE(c.disconnect(one));
    other.run_for(std::chrono::seconds(10));
    EXPECT_EQ(c.all<Disconnected>().size(), 1U);
  }
}

/// Random messages with ids that fit now and then, from anywhere: no crash, no
/// lost timer, and the engine still connects afterwards.
TEST(HostileRandom, NothingBreaksTheEngine) {
  const std::uint64_t seed = test::seed(7);
  Rng rng(seed);
  Network network{seed};
  Config config = Host::usual_config();
  config.max_connections = 64;
  Host a{network, seed + 1, config};
  Host b{network, seed + 2, config};
  std::vector<mad::Mad> seen;
  std::size_t next_seen = 0;
  network.set_filter([&](Network::NodeId, Network::NodeId, const Datagram& datagram) {
    // The most recent ones: their ids are alive.
    if (seen.size() < 64) {
      seen.push_back(datagram.bytes);
    } else {
      seen[next_seen++ % seen.size()] = datagram.bytes;
    }
    return false;
  });
  b.on_event = [&](const Event& event) {
    if (const auto* req = event_as<ReqReceived>(event)) {
      if (!b.accept(req->handle)) {
        b.engine().abandon(req->handle, network.now());
      }
      return true;
    }
    return false;
  };
  const std::uint64_t rounds = test::rounds(20000);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (round % 50 == 0 && a.engine().connections() < 32) {
      const auto qpn = static_cast<std::uint32_t>(0x500 + round % 0xFF0000);
      a.connect(b.id(), qpn, std::chrono::seconds(2));
    }
    mad::Mad bytes = seen[rng.below(seen.size())];
    const auto changes = rng.below(4);
    for (std::uint64_t i = 0; i < changes; ++i) {
      bytes[rng.below(64)] = static_cast<std::uint8_t>(rng.next());
    }
    Address from = Host::address_of(rng.below(2) == 0 ? a.id() : b.id());
    if (rng.below(4) == 0) {
      from.qpn = Qpn(static_cast<std::uint32_t>(rng.below(1 << 24)));
    }
    const auto length = rng.below(20) == 0 ? rng.below(257) : bytes.size();
    b.engine().handle_mad(from, std::span(bytes).first(std::min(length, bytes.size())),
                          network.now());
    b.flush();
    network.run_for(std::chrono::milliseconds(1));
    ASSERT_LE(b.engine().connections(), config.max_connections);
  }
  std::uint64_t drops = 0;
  for (std::size_t reason = 0; reason < static_cast<std::size_t>(DropReason::kCount); ++reason) {
    drops += b.dropped(static_cast<DropReason>(reason));
  }
  EXPECT_GT(drops, 10000U);
  network.run_for(std::chrono::minutes(10));
  for (const auto& established : a.all<RepReceived>()) {
    a.engine().abandon(established.handle, network.now());
  }
  network.set_filter({});
  ASSERT_TRUE(network.run());
  const Handle handle = a.connect(b.id(), 0x400000);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.engine().state(handle), State::Established);
}

}  // namespace
}  // namespace wireup::cm
