// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cm/cm_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What a consumer may choose for its connections.
class Choices : public testing::Test {
 protected:
  Network network{9};
  Host a{network, 91};
  Host b{network, 92};

  [[nodiscard]] ConnectParams iba_params(std::uint8_t response, std::uint8_t retries) const {
    ConnectParams params = a.connect_params(b.id(), 0x500, std::chrono::hours(1));
    params.policy.timers = Timers::Iba;
    params.remote_cm_response_timeout = IbTimeout(response);
    params.local_cm_response_timeout = IbTimeout(response);
    params.max_cm_retries = mad::CmRetryCount(retries);
    return params;
  }
};

TEST_F(Choices, IbaRequestsComeAtTheExactInterval) {
  std::vector<Instant> sent;
  network.set_filter([&](Network::NodeId, Network::NodeId, const Datagram& datagram) {
    if (datagram.kind == mad::CmKind::Req) {
      sent.push_back(network.now());
    }
    return true;
  });
  const Instant begin = network.now();
  a.connect(iba_params(18, 5));
  ASSERT_TRUE(network.run());
  // Two packet lifetimes of the path (code 14) and the response timeout: 4.096 us * 2^n each.
  const Duration interval = 2 * IbTimeout(14).duration() + IbTimeout(18).duration();
  ASSERT_EQ(sent.size(), 6U);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i] - begin, interval * i) << i;
  }
  ASSERT_EQ(a.all<Failed>().size(), 1U);
  EXPECT_EQ(a.all<Failed>()[0].attempts, 6U);
  EXPECT_EQ(network.now() - begin, interval * 6);
}

TEST_F(Choices, IbaRepliesWaitAsTheRequestSays) {
  Policy policy;
  policy.timers = Timers::Iba;
  b.engine().listen(kService, policy);
  std::vector<Instant> sent;
  network.set_filter([&](Network::NodeId, Network::NodeId, const Datagram& datagram) {
    if (datagram.kind == mad::CmKind::Rep) {
      sent.push_back(network.now());
    }
    return datagram.kind == mad::CmKind::Rep;
  });
  ConnectParams params = iba_params(20, 3);
  params.local_cm_response_timeout = IbTimeout(16);
  a.connect(params);
  network.run_for(IbTimeout(16).duration() * 5);
  ASSERT_EQ(sent.size(), 4U);
  for (std::size_t i = 1; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i] - sent[i - 1], IbTimeout(16).duration()) << i;
  }
  ASSERT_EQ(b.all<Failed>().size(), 1U);
  EXPECT_EQ(b.all<Failed>()[0].step, Step::ReadyToUse);
}

TEST_F(Choices, AnMraMovesTheEndOfAnIbaConnect) {
  std::optional<Handle> offered;
  b.on_event = [&](const Event& event) {
    if (const auto* req = event_as<ReqReceived>(event)) {
      offered = req->handle;
      EXPECT_TRUE(b.engine().delay(req->handle, IbTimeout(22), {}, network.now()));
      return true;
    }
    return false;
  };
  a.connect(iba_params(14, 1));  // would end after 0.4 s
  network.run_for(seconds(10));
  ASSERT_TRUE(offered.has_value());
  ASSERT_EQ(a.all<MraReceived>().size(), 1U);
  EXPECT_EQ(a.all<MraReceived>()[0].service_timeout, IbTimeout(22));
  ASSERT_TRUE(b.accept(*offered));
  b.flush();
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.all<Established>().size(), 1U);
}

TEST_F(Choices, ABusyConsumerIsExcusedByAnMra) {
  Policy policy;
  policy.patience = IbTimeout(20);
  b.engine().listen(kService, policy);
  std::optional<Handle> offered;
  b.on_event = [&](const Event& event) {
    if (const auto* req = event_as<ReqReceived>(event)) {
      offered = req->handle;
      return true;
    }
    return false;
  };
  a.connect(b.id(), 0x500);
  network.run_for(seconds(3));
  EXPECT_EQ(b.sent(mad::CmKind::Mra), 1U);
  EXPECT_EQ(a.sent(mad::CmKind::Req), 2U) << "the copy that was answered by the MRA, and no other";
  ASSERT_TRUE(b.accept(*offered));
  b.flush();
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.all<Established>().size(), 1U);
}

TEST_F(Choices, AConsumerMayAnswerReleasesItself) {
  Policy policy;
  policy.answers_release = false;
  b.engine().listen(kService, policy);
  const Handle ours = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  const Handle theirs = b.all<Established>()[0].handle;
  EXPECT_TRUE(b.engine().release(theirs, {}, network.now()).error().is(Errc::InvalidState));
  ASSERT_TRUE(a.disconnect(ours));
  network.run_for(seconds(1));
  ASSERT_EQ(b.all<Disconnected>().size(), 1U);
  EXPECT_TRUE(b.all<Disconnected>()[0].awaits_release);
  EXPECT_EQ(b.engine().state(theirs), State::DreqRcvd);
  EXPECT_TRUE(a.all<Disconnected>().empty());
  const std::array<std::uint8_t, 3> bye = {'b', 'y', 'e'};
  ASSERT_TRUE(b.engine().release(theirs, bye, network.now()));
  b.flush();
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.all<Disconnected>()[0].cause, DisconnectCause::ByUs);
  EXPECT_EQ(a.all<Disconnected>()[0].private_data[2], 'e');
  EXPECT_EQ(a.engine().connections() + b.engine().connections(), 0U);
}

TEST_F(Choices, AReleaseThatNobodyAnswersIsAnsweredByTheEngine) {
  Policy policy;
  policy.answers_release = false;
  Config config = Host::usual_config();
  config.disconnect_deadline = seconds(3);
  Host c{network, 93, config};
  c.engine().listen(kService, policy);
  const Handle ours = a.connect(c.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_TRUE(a.disconnect(ours));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.all<Disconnected>()[0].cause, DisconnectCause::ByUs);
  EXPECT_EQ(c.engine().connections(), 0U);
}

TEST_F(Choices, CrossingReleasesWithAnsweringConsumers) {
  Policy policy;
  policy.answers_release = false;
  b.engine().listen(kService, policy);
  ConnectParams params = a.connect_params(b.id(), 0x500);
  params.policy = policy;
  const Handle ours = a.connect(params);
  ASSERT_TRUE(network.run());
  const Handle theirs = b.all<Established>()[0].handle;
  const auto answer = [this](Host& host) {
    host.on_event = [this, &host](const Event& event) {
      const auto* over = event_as<Disconnected>(event);
      if (over == nullptr || !over->awaits_release) {
        return false;
      }
      EXPECT_TRUE(host.engine().release(over->handle, {}, network.now()));
      return true;
    };
  };
  answer(a);
  answer(b);
  ASSERT_TRUE(a.disconnect(ours));
  ASSERT_TRUE(b.disconnect(theirs));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(a.all<Disconnected>().size(), 1U);
  EXPECT_EQ(b.all<Disconnected>().size(), 1U);
  EXPECT_EQ(a.engine().connections() + b.engine().connections(), 0U);
}

TEST_F(Choices, MasksListenOnRangesAndTheExactIdComesFirst) {
  b.engine().unlisten(kService);
  Policy ranged;
  ranged.answers_release = false;
  b.engine().listen(ServiceId(0x1000000000000000ULL), ranged, 0xFFFFFFFFFFFFFF00ULL);
  b.engine().listen(kService, {});
  const Handle exact = a.connect(b.id(), 0x500);
  ConnectParams params = a.connect_params(b.id(), 0x501);
  params.service_id = ServiceId(0x1000000000000043ULL);
  const Handle in_range = a.connect(params);
  params = a.connect_params(b.id(), 0x502);
  params.service_id = ServiceId(0x1000000000000143ULL);
  a.connect(params);
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.all<Established>().size(), 2U);
  ASSERT_EQ(a.all<Rejected>().size(), 1U);
  EXPECT_EQ(a.all<Rejected>()[0].reason, 8);
  ASSERT_TRUE(a.disconnect(exact));
  ASSERT_TRUE(a.disconnect(in_range));
  network.run_for(seconds(1));
  ASSERT_EQ(b.all<Disconnected>().size(), 2U);
  EXPECT_FALSE(b.all<Disconnected>()[0].awaits_release);
  EXPECT_TRUE(b.all<Disconnected>()[1].awaits_release);
}

TEST_F(Choices, XrcTargetsAreNamedInTheEecn) {
  ConnectParams params = a.connect_params(b.id(), 0x500);
  params.transport_service = mad::TransportService::Extended;
  params.extended_transport = mad::ExtendedTransport(1);
  const Handle ours = a.connect(params);
  ASSERT_TRUE(network.run());
  const mad::Req req = b.all<ReqReceived>()[0].req;
  EXPECT_EQ(req.transport_service, mad::TransportService::Extended);
  EXPECT_EQ(req.extended_transport, mad::ExtendedTransport(1));
  const mad::Rep rep = a.all<RepReceived>()[0].rep;
  EXPECT_EQ(rep.local_eecn.value(), rep.local_qpn.value());
  ASSERT_TRUE(a.disconnect(ours));
  ASSERT_TRUE(network.run());
  EXPECT_EQ(b.all<Disconnected>().size(), 1U) << "the DREQ names the target";
}

TEST_F(Choices, EceAndTransportsArriveAsTheyWereGiven) {
  ConnectParams params = a.connect_params(b.id(), 0x500);
  params.transport_service = mad::TransportService::Uc;
  params.ece_vendor = mad::EceVendor(0x02C9);
  params.ece_options = 0xABCD0001;
  b.on_event = [this](const Event& event) {
    const auto* req = event_as<ReqReceived>(event);
    if (req == nullptr) {
      return false;
    }
    EXPECT_EQ(req->req.transport_service, mad::TransportService::Uc);
    EXPECT_EQ(req->req.ece_vendor, mad::EceVendor(0x02C9));
    EXPECT_EQ(req->req.ece_options, 0xABCD0001U);
    AcceptParams answer = b.accept_params();
    answer.ece_vendor = req->req.ece_vendor;
    answer.ece_options = 1;
    answer.target_ack_delay = IbTimeout(9);
    EXPECT_TRUE(b.engine().accept(req->handle, answer, network.now()));
    return true;
  };
  a.connect(params);
  ASSERT_TRUE(network.run());
  ASSERT_EQ(a.all<RepReceived>().size(), 1U);
  EXPECT_EQ(a.all<RepReceived>()[0].rep.ece_vendor, mad::EceVendor(0x02C9));
  EXPECT_EQ(a.all<RepReceived>()[0].rep.ece_options, 1U);
  EXPECT_EQ(a.all<RepReceived>()[0].rep.target_ack_delay, IbTimeout(9));
}

}  // namespace
}  // namespace wireup::cm
