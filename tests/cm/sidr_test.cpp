// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cm/cm_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr ServiceId kDatagrams{0x1000000000000077ULL};

/// b serves a service id over datagrams; a asks for its queue pair.
class ServiceResolution : public testing::Test {
 protected:
  [[nodiscard]] SidrParams params(Duration limit = seconds(20)) const {
    SidrParams p;
    p.to = Host::address_of(b.id());
    p.service_id = kDatagrams;
    p.pkey = PKey(0x8001);
    p.deadline = network.now() + limit;
    const std::array<std::uint8_t, 2> hello = {'h', 'i'};
    p.private_data = *decltype(p.private_data)::make(hello);
    return p;
  }
  ResolutionId resolve(const SidrParams& p) {
    const auto id = a.engine().resolve_service(p, network.now());
    EXPECT_TRUE(id);
    a.flush();
    return id.value_or(ResolutionId{});
  }
  void answer_all() {
    b.on_sidr = [this](const SidrEvent& event) {
      if (const auto* req = std::get_if<SidrReqReceived>(&event)) {
        SidrAnswer answer;
        answer.qpn = Qpn(0x4242);
        answer.qkey = QKey(0x11110000);
        answer.ece_vendor = mad::EceVendor(0x02C9);
        answer.ece_options = 5;
        EXPECT_TRUE(b.engine().answer_service(req->id, answer, network.now()));
      }
    };
  }
  template <typename T>
  [[nodiscard]] static std::vector<T> all(const Host& host) {
    std::vector<T> found;
    for (const SidrEvent& event : host.sidr_events) {
      if (const T* e = std::get_if<T>(&event)) {
        found.push_back(*e);
      }
    }
    return found;
  }
  void expect_nothing_left() {
    EXPECT_EQ(a.engine().resolutions() + b.engine().resolutions(), 0U);
    EXPECT_EQ(a.engine().poll_timeout(), std::nullopt);
    EXPECT_EQ(b.engine().poll_timeout(), std::nullopt);
  }

  Network network{7};
  Host a{network, 71};
  Host b{network, 72};
};

TEST_F(ServiceResolution, TellsTheQueuePair) {
  b.engine().serve(kDatagrams);
  answer_all();
  const ResolutionId id = resolve(params());
  ASSERT_TRUE(network.run());
  ASSERT_EQ(all<SidrReqReceived>(b).size(), 1U);
  const SidrReqReceived asked = all<SidrReqReceived>(b)[0];
  EXPECT_EQ(asked.req.service_id, kDatagrams);
  EXPECT_EQ(asked.req.pkey, PKey(0x8001));
  EXPECT_EQ(asked.req.private_data[1], 'i');
  EXPECT_EQ(asked.from.dlid, Host::address_of(a.id()).dlid);
  ASSERT_EQ(all<SidrRepReceived>(a).size(), 1U);
  const SidrRepReceived told = all<SidrRepReceived>(a)[0];
  EXPECT_EQ(told.id, id);
  EXPECT_EQ(told.rep.status, 0);
  EXPECT_EQ(told.rep.qpn, Qpn(0x4242));
  EXPECT_EQ(told.rep.qkey, QKey(0x11110000));
  EXPECT_EQ(told.rep.service_id, kDatagrams);
  EXPECT_EQ(told.rep.ece_options, 5U);
  EXPECT_EQ(a.sent_in_all() + b.sent_in_all(), 2U);
  expect_nothing_left();
}

TEST_F(ServiceResolution, NobodyServes) {
  resolve(params());
  ASSERT_TRUE(network.run());
  ASSERT_EQ(all<SidrRepReceived>(a).size(), 1U);
  EXPECT_EQ(all<SidrRepReceived>(a)[0].rep.status,
            static_cast<std::uint8_t>(mad::SidrStatus::UnsupportedService));
  b.engine().serve(kDatagrams);
  b.engine().unserve(kDatagrams);
  resolve(params());
  ASSERT_TRUE(network.run());
  EXPECT_EQ(all<SidrRepReceived>(a)[1].rep.status, 1);
  expect_nothing_left();
}

TEST_F(ServiceResolution, AMaskServesARange) {
  b.engine().serve(ServiceId(0x1000000000000000ULL), 0xFFFFFFFFFFFF0000ULL);
  answer_all();
  SidrParams p = params();
  resolve(p);
  p.service_id = ServiceId(0x1000000000010000ULL);
  resolve(p);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(all<SidrRepReceived>(a).size(), 2U);
  EXPECT_EQ(all<SidrReqReceived>(b).size(), 1U);
}

TEST_F(ServiceResolution, LossesAreRepeated) {
  b.engine().serve(kDatagrams);
  answer_all();
  auto first = lose(a.id(), mad::CmKind::SidrReq);
  auto second = lose(b.id(), mad::CmKind::SidrRep);
  network.set_filter([=](Network::NodeId from, Network::NodeId to, const Datagram& datagram) {
    return first(from, to, datagram) || second(from, to, datagram);
  });
  resolve(params());
  ASSERT_TRUE(network.run());
  EXPECT_EQ(all<SidrRepReceived>(a).size(), 1U);
  EXPECT_EQ(a.sent(mad::CmKind::SidrReq), 3U);
  expect_nothing_left();
}

TEST_F(ServiceResolution, SilenceEnds) {
  network.set_filter(lose(a.id(), mad::CmKind::SidrReq, 1000));
  const ResolutionId id = resolve(params(seconds(5)));
  ASSERT_TRUE(network.run());
  ASSERT_EQ(all<SidrFailed>(a).size(), 1U);
  EXPECT_EQ(all<SidrFailed>(a)[0].id, id);
  EXPECT_GT(all<SidrFailed>(a)[0].attempts, 2U);
  expect_nothing_left();
}

TEST_F(ServiceResolution, IbaTimersAreExact) {
  network.set_filter(lose(a.id(), mad::CmKind::SidrReq, 1000));
  SidrParams p = params(minutes(10));
  p.timers = Timers::Iba;
  p.iba_interval = seconds(2);
  p.max_cm_retries = 3;
  const Instant begin = network.now();
  resolve(p);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(all<SidrFailed>(a).size(), 1U);
  EXPECT_EQ(all<SidrFailed>(a)[0].attempts, 4U);
  EXPECT_EQ(network.now() - begin, seconds(8));
}

/// Interval and count have no bound of their own; the deadline is one.
TEST_F(ServiceResolution, IbaTimersOfAnySizeEndAtTheDeadline) {
  network.set_filter(lose(a.id(), mad::CmKind::SidrReq, 100000));
  struct Extreme {
    Duration interval;
    unsigned retries;
  };
  for (const Extreme extreme :
       {Extreme{Duration::max(), ~0U}, Extreme{Duration::max(), 0}, Extreme{seconds(1), ~0U},
        Extreme{Duration::min(), ~0U}, Extreme{Duration::zero(), 1000000}}) {
    a.sidr_events.clear();
    SidrParams p = params(seconds(10));
    p.timers = Timers::Iba;
    p.iba_interval = extreme.interval;
    p.max_cm_retries = extreme.retries;
    const Instant begin = network.now();
    resolve(p);
    ASSERT_TRUE(network.run());
    ASSERT_EQ(all<SidrFailed>(a).size(), 1U);
    EXPECT_EQ(network.now() - begin, seconds(10));
  }
}

TEST_F(ServiceResolution, AConsumerThatDoesNotAnswerIsAnsweredFor) {
  b.engine().serve(kDatagrams);
  resolve(params(minutes(5)));
  ASSERT_TRUE(network.run());
  ASSERT_EQ(all<SidrReqReceived>(b).size(), 1U) << "copies are not offered again";
  EXPECT_GT(b.dropped(DropReason::Duplicate), 0U);
  ASSERT_EQ(all<SidrRepReceived>(a).size(), 1U);
  EXPECT_EQ(all<SidrRepReceived>(a)[0].rep.status,
            static_cast<std::uint8_t>(mad::SidrStatus::Rejected));
  EXPECT_TRUE(b.engine()
                  .answer_service(all<SidrReqReceived>(b)[0].id, {}, network.now())
                  .error()
                  .is(Errc::NotFound));
  expect_nothing_left();
}

TEST_F(ServiceResolution, WhatIsAbandonedIsForgotten) {
  b.engine().serve(kDatagrams);
  const ResolutionId id = resolve(params());
  EXPECT_TRUE(a.engine().answer_service(id, {}, network.now()).error().is(Errc::InvalidState));
  a.engine().abandon(id);
  a.engine().abandon(id);
  network.run_for(seconds(1));
  ASSERT_EQ(all<SidrReqReceived>(b).size(), 1U);
  b.engine().abandon(all<SidrReqReceived>(b)[0].id);
  expect_nothing_left();
}

TEST_F(ServiceResolution, ForeignAnswersAreIgnored) {
  b.engine().serve(kDatagrams);
  Host c{network, 73};
  std::optional<Datagram> asked;
  network.set_filter([&](Network::NodeId, Network::NodeId, const Datagram& datagram) {
    if (datagram.kind == mad::CmKind::SidrReq) {
      asked = datagram;
    }
    return datagram.kind == mad::CmKind::SidrReq;
  });
  resolve(params(seconds(3)));
  ASSERT_TRUE(asked.has_value());
  const auto req = mad::parse_cm(asked->bytes);
  mad::SidrRep rep;
  rep.request_id = std::get<mad::SidrReq>(*req).request_id;
  a.engine().handle_mad(Host::address_of(c.id()), mad::serialize(rep), network.now());
  EXPECT_EQ(a.dropped(DropReason::WrongSource), 1U);
  rep.request_id = CommId(rep.request_id.value() ^ 1U);
  a.engine().handle_mad(Host::address_of(b.id()), mad::serialize(rep), network.now());
  EXPECT_EQ(a.dropped(DropReason::UnknownConnection), 1U);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(all<SidrFailed>(a).size(), 1U);
}

TEST_F(ServiceResolution, HasRoomForSoManyOnly) {
  Config config = Host::usual_config();
  config.max_resolutions = 2;
  Engine engine(config, Rng(1));
  engine.serve(kDatagrams);
  ASSERT_TRUE(engine.resolve_service(params(), network.now()));
  mad::SidrReq req;
  req.service_id = kDatagrams;
  req.request_id = CommId(1);
  engine.handle_mad(Host::address_of(a.id()), mad::serialize(req), network.now());
  EXPECT_EQ(engine.resolutions(), 2U);
  EXPECT_TRUE(engine.resolve_service(params(), network.now()).error().is(Errc::Busy));
  req.request_id = CommId(2);
  engine.handle_mad(Host::address_of(a.id()), mad::serialize(req), network.now());
  EXPECT_EQ(engine.counters().dropped[static_cast<std::size_t>(DropReason::NoRoom)], 1U);
  SidrParams late = params();
  late.deadline = network.now();
  EXPECT_TRUE(engine.resolve_service(late, network.now()).error().is(Errc::InvalidArgument));
}

TEST_F(ServiceResolution, ClassPortInfoIsAnswered) {
  mad::Header header;
  header.mgmt_class = 0x07;
  header.class_version = 2;
  header.method = 0x01;
  header.attribute_id = 0x0001;
  header.tid = Tid(0x1234);
  mad::Mad get{};
  mad::serialize(header, std::span(get));
  b.engine().handle_mad(Host::address_of(a.id()), get, network.now());
  const auto answer = b.engine().poll_transmit();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->to, Host::address_of(a.id()));
  EXPECT_FALSE(answer->kind.has_value());
  const mad::Mad& bytes = answer->bytes;
  EXPECT_EQ(bytes[3], 0x81);
  EXPECT_EQ(bytes[14], 0x12);
  EXPECT_EQ(bytes[24], 1);     // base version
  EXPECT_EQ(bytes[25], 2);     // class version
  EXPECT_EQ(bytes[26], 0x32);  // reliable, unreliable, SIDR
  EXPECT_EQ(bytes[31], 20);    // response time
  // Its answer is none to a CM that has not asked.
  a.engine().handle_mad(Host::address_of(b.id()), bytes, network.now());
  EXPECT_EQ(a.dropped(DropReason::Malformed), 1U);
}

}  // namespace
}  // namespace wireup::cm
