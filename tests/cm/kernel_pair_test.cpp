// SPDX-License-Identifier: BSD-3-Clause
//
// Two engines over two kernel carriers on one kernel of the test's own.
#include <set>
#include <string>

#include "cm/kernel_pair.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

INSTANTIATE_TEST_SUITE_P(Media, KernelPair, testing::Values(Medium::Infiniband, Medium::Roce),
                         [](const auto& medium) {
                           return medium.param == Medium::Infiniband ? "Infiniband" : "Roce";
                         });

TEST_P(KernelPair, ConnectsWithTheValuesOfTheMessages) {
  const Handle handle = connect_a();
  const auto offered = b().all<ReqReceived>();
  ASSERT_EQ(offered.size(), 1U);
  const mad::Req& req = offered[0].req;
  EXPECT_EQ(req.service_id, *b().carrier().service_id());
  EXPECT_EQ(req.local_qpn, Qpn(0x100));
  EXPECT_EQ(req.responder_resources, 3);
  EXPECT_EQ(req.initiator_depth, 5);
  EXPECT_EQ(req.retry_count, mad::RetryCount(6));
  EXPECT_EQ(req.rnr_retry_count, mad::RnrRetryCount(2));
  EXPECT_TRUE(req.srq);
  EXPECT_EQ(req.path_mtu, mad::CmMtu(4));
  EXPECT_EQ(req.private_data, mad::private_data<92>(KernelRank::request_data().span()));
  EXPECT_EQ(req.starting_psn, derived_psn(Qpn(0x100), KernelRank::request_data().span()));
  EXPECT_EQ(req.local_ca_guid, a().gid().interface_id());
  EXPECT_EQ(req.primary.local_gid, a().gid());
  EXPECT_EQ(req.primary.remote_gid, b().gid());
  EXPECT_EQ(req.primary.local_lid, Lid(is_ib() ? 1 : 0));
  EXPECT_EQ(req.primary.remote_lid, Lid(is_ib() ? 2 : 0));
  EXPECT_EQ(req.primary.sl, Sl(is_ib() ? 5 : 0));
  EXPECT_EQ(req.primary.packet_rate, mad::CmRate(16));
  EXPECT_EQ(req.primary.flow_label, FlowLabel(0x12345));
  EXPECT_EQ(req.primary.traffic_class, 0x21);
  EXPECT_EQ(req.primary.subnet_local, is_ib());
  // 18 and the adapter's 15 make 19 in the REQ, of which either side takes 18 for the lifetime.
  EXPECT_EQ(req.primary.local_ack_timeout, IbTimeout(19));
  EXPECT_EQ(req.pkey, PKey(is_ib() ? 0x8001 : 0xFFFF));
  EXPECT_EQ(offered[0].from.qpn, Qpn(1));
  EXPECT_EQ(offered[0].from.dgid, a().gid());
  EXPECT_EQ(offered[0].from.dlid, Lid(is_ib() ? 1 : 0));

  const auto replies = a().all<RepReceived>();
  ASSERT_EQ(replies.size(), 1U);
  const mad::Rep& rep = replies[0].rep;
  EXPECT_EQ(replies[0].handle, handle);
  EXPECT_EQ(rep.local_qpn, Qpn(0x800000));
  EXPECT_EQ(rep.responder_resources, 4);
  EXPECT_EQ(rep.initiator_depth, 2);
  EXPECT_EQ(rep.rnr_retry_count, mad::RnrRetryCount(1));
  EXPECT_EQ(rep.private_data, mad::private_data<196>(std::array<std::uint8_t, 2>{5, 6}));
  EXPECT_EQ(rep.starting_psn, derived_psn(Qpn(0x800000), std::array<std::uint8_t, 2>{5, 6}));
  EXPECT_EQ(rep.local_ca_guid, b().gid().interface_id());

  EXPECT_EQ(b().all<Established>().size(), 1U);
  EXPECT_EQ(a().engine().state(handle), State::Established);
  EXPECT_EQ(kernel_.ids(), 4U) << "two listeners, one id for each end";
  EXPECT_FALSE(a().carrier().poll_timeout().has_value()) << "nothing is waited for";
  EXPECT_FALSE(b().carrier().poll_timeout().has_value());
  disconnect(a(), handle);
}

TEST_P(KernelPair, TheActiveSideReleases) {
  disconnect(a(), connect_a());
  settle();
  ASSERT_EQ(a().all<Disconnected>().size(), 1U);
  EXPECT_EQ(a().all<Disconnected>()[0].cause, DisconnectCause::ByUs);
  ASSERT_EQ(b().all<Disconnected>().size(), 1U);
  EXPECT_EQ(b().all<Disconnected>()[0].cause, DisconnectCause::ByPeer);
  EXPECT_EQ(kernel_.ids(), 2U) << "the kernel's TIMEWAIT is over";
  run_dry();
  EXPECT_EQ(a().all<TimewaitExit>().size(), 1U);
  EXPECT_EQ(b().all<TimewaitExit>().size(), 1U);
}

TEST_P(KernelPair, ThePassiveSideReleases) {
  connect_a();
  disconnect(b(), b().all<ReqReceived>().at(0).handle);
  settle();
  EXPECT_EQ(a().all<Disconnected>().at(0).cause, DisconnectCause::ByPeer);
  EXPECT_EQ(b().all<Disconnected>().at(0).cause, DisconnectCause::ByUs);
  EXPECT_EQ(kernel_.ids(), 2U);
}

TEST_P(KernelPair, BothReleaseAtOnce) {
  const Handle handle = connect_a();
  kernel_.is_held = true;
  disconnect(a(), handle);
  disconnect(b(), b().all<ReqReceived>().at(0).handle);
  settle();
  EXPECT_TRUE(a().all<Disconnected>().empty());
  kernel_.is_held = false;
  kernel_.deliver();
  settle();
  EXPECT_EQ(a().all<Disconnected>().at(0).cause, DisconnectCause::ByUs);
  EXPECT_EQ(b().all<Disconnected>().at(0).cause, DisconnectCause::ByUs);
  EXPECT_EQ(kernel_.ids(), 2U);
}

TEST_P(KernelPair, ARefusalArrivesWithItsPrivateDataAndAReasonThatTheKernelLets) {
  struct Case {
    mad::RejReason given;
    std::uint16_t seen;
    std::uint64_t lost;
  };
  std::uint32_t qpn = 0x100;
  for (const Case& c : {Case{mad::RejReason::ConsumerReject, 28, 0},
                        Case{mad::RejReason::VendorOptionNotSupported, 35, 0},
                        Case{mad::RejReason::NoResources, 28, 1}}) {
    a().events.clear();
    b().on_event = [&](const Event& event) {
      if (const auto* req = std::get_if<ReqReceived>(&event)) {
        const std::array<std::uint8_t, 3> why{1, 2, 3};
        EXPECT_TRUE(b().engine().reject(req->handle, c.given, {}, why, now_).has_value());
      }
      return true;
    };
    connect_a(qpn++);
    const auto rejected = a().all<Rejected>();
    ASSERT_EQ(rejected.size(), 1U);
    EXPECT_EQ(rejected[0].reason, c.seen);
    EXPECT_EQ(rejected[0].private_data,
              mad::private_data<148>(std::array<std::uint8_t, 3>{1, 2, 3}));
    EXPECT_EQ(b().carrier().counters().reasons_lost, c.lost);
    EXPECT_EQ(kernel_.ids(), 2U);
    EXPECT_FALSE(a().carrier().poll_failure().has_value()) << "it was the peer's word";
  }
}

TEST_P(KernelPair, TheActiveSideRefusesTheReply) {
  a().on_event = [&](const Event& event) {
    if (const auto* rep = std::get_if<RepReceived>(&event)) {
      EXPECT_TRUE(a().engine()
                      .reject(rep->handle, mad::RejReason::ConsumerReject, {}, {}, now_)
                      .has_value());
    }
    return true;
  };
  connect_a();
  ASSERT_EQ(b().all<Rejected>().size(), 1U);
  EXPECT_EQ(b().all<Rejected>()[0].reason, 28);
  EXPECT_EQ(kernel_.ids(), 2U);
}

TEST_P(KernelPair, NobodyListens) {
  ConnectParams params = a().connect_params(
      b().gid(), 2, ServiceId(b().carrier().service_id()->value() + 1), 0x100, now_ + seconds(30));
  a().connect(params, now_);
  settle();
  ASSERT_EQ(a().all<Rejected>().size(), 1U);
  EXPECT_EQ(a().all<Rejected>()[0].reason, 8);
  EXPECT_EQ(kernel_.ids(), 2U);
}

TEST_P(KernelPair, ThePeerDoesNotAnswer) {
  kernel_.unreachable.insert(b().gid());
  connect_a();
  ASSERT_EQ(a().all<Rejected>().size(), 1U);
  EXPECT_EQ(a().all<Rejected>()[0].reason, 4);
  const auto failure = a().carrier().poll_failure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->local_qpn, Qpn(0x100));
  EXPECT_EQ(failure->peer.dgid, b().gid());
  EXPECT_TRUE(failure->error.is(Errc::Timeout)) << failure->error.what();
  EXPECT_EQ(failure->error.error_number(), ETIMEDOUT);
  EXPECT_EQ(a().carrier().counters().failed, 1U);
}

TEST_P(KernelPair, AQueuePairInUseIsStale) {
  connect_a(0x100);
  connect_a(0x100);
  ASSERT_EQ(a().all<Rejected>().size(), 1U);
  EXPECT_EQ(a().all<Rejected>()[0].reason, 10);
  EXPECT_EQ(b().all<Established>().size(), 1U);
  disconnect(b(), b().all<ReqReceived>().at(0).handle);
}

TEST_P(KernelPair, AnActiveSideThatGivesUpIsHeardWhileTheRequestIsOffered) {
  b().on_event = [](const Event& /*event*/) { return true; };
  a().connect(b(), 0x100, now_, seconds(2));
  settle();
  ASSERT_EQ(b().all<ReqReceived>().size(), 1U);
  now_ += seconds(2);
  settle();
  ASSERT_EQ(a().all<Failed>().size(), 1U);
  const auto rejected = b().all<Rejected>();
  ASSERT_EQ(rejected.size(), 1U) << "the engine knows only its offer";
  EXPECT_EQ(rejected[0].handle, b().all<ReqReceived>()[0].handle);
  EXPECT_EQ(rejected[0].reason, 4);
  EXPECT_EQ(kernel_.ids(), 2U);
}

// Both ask at once, each with one queue pair for its own request and for the peer's. A wins: it
// abandons what B asks for; B abandons its own request and accepts A's.
TEST_P(KernelPair, CrossingConnectsMakeOneConnection) {
  kernel_.is_held = true;
  const Handle mine = a().connect(b(), 0x100, now_);
  const Handle theirs = b().connect(a(), 0x200, now_);
  a().on_event = [&](const Event& event) {
    const auto* req = std::get_if<ReqReceived>(&event);
    if (req != nullptr) {
      a().engine().abandon(req->handle, now_);
      a().carrier().forget(req->req.local_comm_id);
    }
    return req != nullptr;
  };
  b().on_event = [&](const Event& event) {
    const auto* req = std::get_if<ReqReceived>(&event);
    if (req != nullptr) {
      b().engine().abandon(theirs, now_);
      EXPECT_TRUE(b().engine().accept(req->handle, b().accept_params(0x200), now_).has_value());
    }
    return req != nullptr;
  };
  settle();
  kernel_.is_held = false;
  kernel_.deliver();
  settle();
  EXPECT_EQ(a().all<ReqReceived>().size(), 1U);
  EXPECT_EQ(a().engine().state(mine), State::Established);
  ASSERT_EQ(b().all<Established>().size(), 1U);
  EXPECT_TRUE(b().all<Rejected>().empty()) << "an abandoned request has no answer";
  EXPECT_EQ(b().carrier().counters().abandoned, 1U);
  EXPECT_EQ(kernel_.ids(), 4U);
  disconnect(a(), mine);
}

// The request that the peer abandoned may be needed again: the engine repeats it, and only then is
// that a request of its own to the kernel.
TEST_P(KernelPair, AnAbandonedRequestIsMadeAgainWhenTheEngineRepeatsIt) {
  bool forget = true;
  b().on_event = [&](const Event& event) {
    const auto* req = std::get_if<ReqReceived>(&event);
    if (req == nullptr || !forget) {
      return false;
    }
    b().engine().abandon(req->handle, now_);
    b().carrier().forget(req->req.local_comm_id);
    forget = false;
    return true;
  };
  const Handle handle = connect_a();
  EXPECT_EQ(a().engine().state(handle), State::ReqSent);
  EXPECT_EQ(a().carrier().connections(), 0U);
  now_ += seconds(1);
  settle();
  EXPECT_EQ(a().engine().state(handle), State::Established);
  EXPECT_EQ(b().all<ReqReceived>().size(), 2U);
  disconnect(a(), handle);
}

TEST_P(KernelPair, NamesOfPeersAreNotUsedTwice) {
  std::set<CommId> names;
  for (std::uint32_t i = 0; i < 50; ++i) {
    b().events.clear();
    disconnect(a(), connect_a(0x100 + i));
    settle();
    names.insert(b().all<ReqReceived>().at(0).req.local_comm_id);
  }
  EXPECT_EQ(names.size(), 50U);
}

TEST_P(KernelPair, ManyAtOnce) {
  for (std::uint32_t i = 0; i < 200; ++i) {
    a().connect(b(), 0x1000 + i, now_);
    b().connect(a(), 0x2000 + i, now_);
  }
  settle();
  EXPECT_EQ(a().all<Established>().size(), 200U);
  EXPECT_EQ(b().all<Established>().size(), 200U);
  for (const RepReceived& reply : a().all<RepReceived>()) {
    disconnect(a(), reply.handle);
  }
  for (const RepReceived& reply : b().all<RepReceived>()) {
    disconnect(b(), reply.handle);
  }
  settle();
  EXPECT_EQ(a().all<Disconnected>().size(), 400U);
  EXPECT_EQ(kernel_.ids(), 2U);
}

TEST_P(KernelPair, PrivateDataOfARequestAsLongAsTheMediumHasRoom) {
  const std::size_t limit = is_ib() ? 92 : 56;
  const std::vector<std::uint8_t> full(limit, 0xEE);
  ConnectParams params =
      a().connect_params(b().gid(), 2, *b().carrier().service_id(), 0x100, now_ + seconds(30));
  params.private_data = *decltype(params.private_data)::make(full);
  params.starting_psn = derived_psn(params.qpn, full);
  const Handle handle = a().connect(params, now_);
  settle();
  EXPECT_EQ(b().all<ReqReceived>().at(0).req.private_data, mad::private_data<92>(full));
  EXPECT_EQ(a().engine().state(handle), State::Established);
  disconnect(a(), handle);
  if (is_ib()) {
    return;  // a REQ has no more
  }
  const std::vector<std::uint8_t> more(limit + 1, 0xEE);
  params.qpn = Qpn(0x101);
  params.private_data = *decltype(params.private_data)::make(more);
  params.starting_psn = derived_psn(params.qpn, more);
  a().connect(params, now_);
  settle();
  ASSERT_EQ(a().send_errors.size(), 1U);
  EXPECT_TRUE(a().send_errors[0].is(Errc::InvalidArgument));
  EXPECT_NE(a().send_errors[0].what().find("57 bytes of private data, at most 56"),
            std::string_view::npos)
      << a().send_errors[0].what();
  ASSERT_EQ(a().all<Rejected>().size(), 1U);
  EXPECT_EQ(a().all<Rejected>()[0].reason, 5);
}

TEST_P(KernelPair, StartingPsnsHaveToBeTheDerivedOnes) {
  ConnectParams params =
      a().connect_params(b().gid(), 2, *b().carrier().service_id(), 0x100, now_ + seconds(30));
  const Psn right = params.starting_psn;
  params.starting_psn = Psn(right.value() ^ 1U);
  a().connect(params, now_);
  settle();
  ASSERT_EQ(a().send_errors.size(), 1U);
  EXPECT_TRUE(a().send_errors[0].is(Errc::InvalidArgument));
  for (const Psn psn : {right, params.starting_psn}) {
    char text[16];
    std::snprintf(text, sizeof(text), "0x%06x", static_cast<unsigned>(psn.value()));
    EXPECT_NE(a().send_errors[0].what().find(text), std::string_view::npos)
        << a().send_errors[0].what();
  }
  EXPECT_EQ(a().all<Rejected>().size(), 1U) << "the engine does not wait";

  b().on_event = [&](const Event& event) {
    if (const auto* req = std::get_if<ReqReceived>(&event)) {
      AcceptParams accept = b().accept_params(0x300);
      accept.starting_psn = Psn(accept.starting_psn.value() ^ 1U);
      EXPECT_TRUE(b().engine().accept(req->handle, accept, now_).has_value());
    }
    return true;
  };
  connect_a(0x101);
  ASSERT_EQ(b().send_errors.size(), 1U);
  EXPECT_TRUE(b().send_errors[0].is(Errc::InvalidArgument));
  EXPECT_EQ(b().all<Rejected>().size(), 1U);
  EXPECT_EQ(a().all<Rejected>().size(), 2U) << "nor does the peer's";
}

// Whatever fails: both consumers hear of an end or are connected, and nothing is left over (the
// fixture looks).
TEST_P(KernelPair, EachCallMayFailOnce) {
  std::uint32_t qpn = 0x100;
  for (const char* call :
       {"create_id", "resolve_addr", "set_option", "connect", "accept", "establish", "reject",
        "disconnect", "destroy_id", "ack_cm_event", "get_cm_event"}) {
    SCOPED_TRACE(call);
    a().events.clear();
    b().events.clear();
    kernel_.failing = call;
    kernel_.error = EINVAL;
    const Handle handle = connect_a(qpn++);
    if (a().engine().state(handle) == State::Established) {
      disconnect(a(), handle);
    }
    run_dry();
    EXPECT_EQ(a().all<Rejected>().size() + a().all<Disconnected>().size(), 1U);
    const std::size_t offered = b().all<ReqReceived>().size();
    EXPECT_EQ(b().all<Rejected>().size() + b().all<Disconnected>().size(), offered);
    EXPECT_EQ(a().engine().connections(), 0U);
    EXPECT_EQ(b().engine().connections(), 0U);
    EXPECT_EQ(kernel_.ids(), 2U);
    const bool is_fatal = std::set<std::string>{"create_id", "resolve_addr", "set_option",
                                                "connect",   "accept",       "establish"}
                              .contains(call);
    const auto failure = a().carrier().poll_failure();
    const auto failure_of_b = b().carrier().poll_failure();
    EXPECT_EQ(failure.has_value() || failure_of_b.has_value(), is_fatal);
    if (is_fatal) {
      const Error& error = failure.has_value() ? failure->error : failure_of_b->error;
      EXPECT_NE(error.what().find(std::string("rdma_") + call), std::string_view::npos)
          << error.what();
    }
    kernel_.failing.clear();
  }
}

}  // namespace
}  // namespace wireup::cm
