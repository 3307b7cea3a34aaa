// SPDX-License-Identifier: BSD-3-Clause
//
// What a consumer may put into its commands: each field at its ends, and that both sides of a
// connection get the same out of any.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "cm/cm_host.hpp"
#include "cm/engine/ack_timeout.hpp"
#include "cm/engine_pair.hpp"

namespace wireup::cm {
namespace {

/// The type of a field refuses what is beyond `most`.
template <typename T>
void expect_type_ends_at(std::uint64_t most) {
  EXPECT_TRUE(T::make(0).has_value());
  ASSERT_TRUE(T::make(most).has_value());
  EXPECT_EQ(std::uint64_t{T::make(most)->value()}, most);
  EXPECT_FALSE(T::make(most + 1).has_value());
}

TEST(Params, TypesRefuseWhatNoMessageCarries) {
  expect_type_ends_at<Qpn>(0xFFFFFF);
  expect_type_ends_at<Psn>(0xFFFFFF);
  expect_type_ends_at<mad::Eecn>(0xFFFFFF);
  expect_type_ends_at<mad::EceVendor>(0xFFFFFF);
  expect_type_ends_at<FlowLabel>(0xFFFFF);
  expect_type_ends_at<Sl>(15);
  expect_type_ends_at<Lid>(0xFFFF);
  expect_type_ends_at<mad::RetryCount>(7);
  expect_type_ends_at<mad::RnrRetryCount>(7);
  expect_type_ends_at<mad::CmRetryCount>(15);
  expect_type_ends_at<mad::ExtendedTransport>(7);
  EXPECT_EQ(IbTimeout(31).exponent(), 31);
  EXPECT_EQ(IbTimeout(32).exponent(), 31) << "the longest there is";
  const std::vector<std::uint8_t> bytes(1024);
  const auto fits = [&](auto type, std::size_t most) {
    using T = decltype(type);
    return T::make(std::span(bytes).first(most)).has_value() &&
           !T::make(std::span(bytes).first(most + 1)).has_value();
  };
  EXPECT_TRUE(fits(decltype(ConnectParams::private_data){}, 92));
  EXPECT_TRUE(fits(decltype(AcceptParams::private_data){}, 196));
  EXPECT_TRUE(fits(decltype(LapParams::private_data){}, 168));
  EXPECT_TRUE(fits(decltype(AprParams::private_data){}, 148));
  EXPECT_TRUE(fits(decltype(AprParams::info){}, 72));
  EXPECT_TRUE(fits(decltype(SidrParams::private_data){}, 216));
  EXPECT_TRUE(fits(decltype(SidrAnswer::private_data){}, 136));
  EXPECT_TRUE(fits(decltype(SidrAnswer::info){}, 72));
}

/// Two hosts; every test makes its own connections.
class ParamLimits : public testing::Test {
 protected:
  template <typename R>
  static void expect_names(const R& result, const char* value, const char* limit) {
    ASSERT_FALSE(result.has_value());
    EXPECT_TRUE(result.error().is(Errc::InvalidArgument));
    const std::string text(result.error().what());
    EXPECT_NE(text.find(value), std::string::npos) << text;
    EXPECT_NE(text.find(limit), std::string::npos) << text;
  }
  Network network{13};
  Host a{network, 131};
  Host b{network, 132};
};

TEST_F(ParamLimits, CodesOfAPathThatTheMessageHasNoRoomForAreNamed) {
  ConnectParams params = a.connect_params(b.id(), 0x500);
  for (const std::uint8_t rate : {std::uint8_t{0}, std::uint8_t{63}}) {
    params.path.rate = rate;
    EXPECT_TRUE(a.engine().connect(params, network.now()));
  }
  params.path.rate = 64;
  expect_names(a.engine().connect(params, network.now()), "64", "63");
  params.path.rate = 7;
  for (const std::uint8_t mtu : {std::uint8_t{0}, std::uint8_t{15}}) {
    params.path.mtu = mtu;
    EXPECT_TRUE(a.engine().connect(params, network.now()));
  }
  params.path.mtu = 16;
  expect_names(a.engine().connect(params, network.now()), "16", "15");
}

TEST_F(ParamLimits, AnAlternatePathThatTheRequestCannotCarryIsRefused) {
  ConnectParams params = a.connect_params(b.id(), 0x500);
  params.alternate_path = params.path;
  EXPECT_TRUE(a.engine().connect(params, network.now()));
  params.alternate_path->pkey = PKey(0x8001);
  EXPECT_TRUE(a.engine().connect(params, network.now()).error().is(Errc::InvalidArgument));
  params.alternate_path = params.path;
  params.alternate_path->mtu = 1;
  EXPECT_TRUE(a.engine().connect(params, network.now()).error().is(Errc::InvalidArgument));
  params.alternate_path = params.path;
  params.alternate_path->rate = 64;
  expect_names(a.engine().connect(params, network.now()), "64", "63");
  params.alternate_path = params.path;
  params.alternate_path->slid = Lid(0);
  EXPECT_TRUE(a.engine().connect(params, network.now()).error().is(Errc::InvalidArgument))
      << "it would arrive as none";
}

TEST_F(ParamLimits, PrivateDataOfCommandsAreMeasured) {
  const std::vector<std::uint8_t> bytes(300);
  const auto first = [&](std::size_t size) { return std::span(bytes).first(size); };
  b.on_event = [](const Event& event) { return event_as<ReqReceived>(event) != nullptr; };
  a.on_event = [](const Event& event) { return event_as<RepReceived>(event) != nullptr; };
  const Handle ours = a.connect(b.id(), 0x500);
  network.run_for(std::chrono::milliseconds(10));
  const Handle theirs = b.all<ReqReceived>()[0].handle;
  Engine& engine = b.engine();
  expect_names(engine.delay(theirs, IbTimeout(20), first(223), network.now()), "223", "222");
  expect_names(engine.reject(theirs, mad::RejReason::ConsumerReject, {}, first(149), network.now()),
               "149", "148");
  expect_names(engine.reject(theirs, mad::RejReason::ConsumerReject, first(73), {}, network.now()),
               "73", "72");
  ASSERT_TRUE(engine.delay(theirs, IbTimeout(20), first(222), network.now()));
  ASSERT_TRUE(b.accept(theirs));
  b.flush();
  network.run_for(std::chrono::milliseconds(10));
  expect_names(a.engine().establish(ours, first(225), network.now()), "225", "224");
  ASSERT_TRUE(a.engine().establish(ours, first(224), network.now()));
  a.flush();
  network.run_for(std::chrono::milliseconds(10));
  expect_names(a.engine().disconnect(ours, first(221), network.now()), "221", "220");
  ASSERT_TRUE(a.engine().disconnect(ours, first(220), network.now()));
}

TEST_F(ParamLimits, DeadlinesLieInTheFutureAndMayBeFarAway) {
  ConnectParams params = a.connect_params(b.id(), 0x500);
  params.deadline = network.now();
  EXPECT_TRUE(a.engine().connect(params, network.now()).error().is(Errc::InvalidArgument));
  params.deadline = Instant::max();
  params.policy.timers = Timers::Iba;
  params.path.packet_lifetime = 31;
  params.remote_cm_response_timeout = IbTimeout(31);
  params.max_cm_retries = mad::CmRetryCount(15);
  EXPECT_TRUE(a.engine().connect(params, network.now()));
  EXPECT_GT(*a.engine().poll_timeout(), network.now() + std::chrono::hours(7));
  SidrParams question;
  question.to = Host::address_of(b.id());
  question.deadline = Instant::max();
  question.timers = Timers::Iba;
  question.iba_interval = Duration::max();
  question.max_cm_retries = std::numeric_limits<unsigned>::max();
  EXPECT_TRUE(a.engine().resolve_service(question, network.now()));
  EXPECT_GT(*a.engine().poll_timeout(), network.now());
}

/// 0, the most, or anything between.
template <typename T>
T any_id() {
  const auto most = static_cast<std::uint64_t>(T::kMax);
  const auto any = *rc::gen::arbitrary<std::uint64_t>();
  return T(
      static_cast<typename T::ValueType>(*rc::gen::element<std::uint64_t>(0, most, any & most)));
}
std::uint8_t any_byte(unsigned most = 255) {
  return static_cast<std::uint8_t>(
      *rc::gen::element<unsigned>(0U, most, *rc::gen::inRange<unsigned>(0, most + 1)));
}
template <std::size_t N>
BoundedBytes<N> any_private_data() {
  const auto size = *rc::gen::element<std::size_t>(0, N, *rc::gen::inRange<std::size_t>(0, N + 1));
  const auto bytes =
      *rc::gen::container<std::vector<std::uint8_t>>(size, rc::gen::arbitrary<std::uint8_t>());
  return *BoundedBytes<N>::make(bytes);
}
template <std::size_t M, std::size_t N>
bool begins_with(const std::array<std::uint8_t, M>& arrived, const BoundedBytes<N>& sent) {
  return arrived == mad::private_data<M>(sent.span());
}

/// Whatever two consumers say of a connection arrives as it was said, and what each side computes
/// of it for itself is the same on both.
RC_GTEST_PROP(ParamsProperty, BothSidesGetTheSame, ()) {
  Network network{14};
  Config config;
  config.max_timewait = std::chrono::hours(24);
  config.ca_ack_delay = IbTimeout(any_byte(31));
  Host a{network, 141, config};
  Host b{network, 142, config};

  ConnectParams params = a.connect_params(b.id(), any_id<Qpn>().value());
  params.starting_psn = any_id<Psn>();
  params.path.packet_lifetime = any_byte(31);
  params.path.rate = any_byte(63);
  params.path.mtu = any_byte(15);
  params.path.sl = any_id<Sl>();
  params.path.flow_label = any_id<FlowLabel>();
  params.path.hop_limit = any_byte();
  params.path.traffic_class = any_byte();
  params.path.pkey = PKey(*rc::gen::arbitrary<std::uint16_t>());
  params.responder_resources = any_byte();
  params.initiator_depth = any_byte();
  params.retry_count = any_id<mad::RetryCount>();
  params.rnr_retry_count = any_id<mad::RnrRetryCount>();
  params.srq = *rc::gen::arbitrary<bool>();
  params.end_to_end_flow_control = *rc::gen::arbitrary<bool>();
  params.transport_service = static_cast<mad::TransportService>(any_byte(3));
  params.extended_transport = any_id<mad::ExtendedTransport>();
  params.ece_vendor = any_id<mad::EceVendor>();
  params.ece_options = *rc::gen::arbitrary<std::uint32_t>();
  params.remote_cm_response_timeout = IbTimeout(any_byte(31));
  params.local_cm_response_timeout = IbTimeout(any_byte(31));
  params.max_cm_retries = any_id<mad::CmRetryCount>();
  params.private_data = any_private_data<mad::Req::kPrivateSize>();
  if (*rc::gen::arbitrary<bool>()) {
    params.alternate_path = params.path;
    params.alternate_path->slid = Lid(0x20);
    params.alternate_path->packet_lifetime = any_byte(31);
  }

  AcceptParams answer = b.accept_params();
  answer.qpn = any_id<Qpn>();
  answer.starting_psn = any_id<Psn>();
  answer.responder_resources = any_byte();
  answer.initiator_depth = any_byte();
  answer.rnr_retry_count = any_id<mad::RnrRetryCount>();
  answer.srq = *rc::gen::arbitrary<bool>();
  answer.end_to_end_flow_control = *rc::gen::arbitrary<bool>();
  answer.failover = static_cast<mad::Failover>(any_byte(3));
  answer.ece_vendor = any_id<mad::EceVendor>();
  answer.ece_options = *rc::gen::arbitrary<std::uint32_t>();
  answer.target_ack_delay = IbTimeout(any_byte(31));
  answer.private_data = any_private_data<mad::Rep::kPrivateSize>();
  b.on_event = [&](const Event& event) {
    const auto* req = event_as<ReqReceived>(event);
    return req != nullptr && b.engine().accept(req->handle, answer, network.now()).has_value();
  };

  const Handle ours = a.connect(params);
  RC_ASSERT(network.run());
  RC_ASSERT(a.engine().state(ours) == State::Established);
  const auto offers = b.all<ReqReceived>();
  const auto replies = a.all<RepReceived>();
  RC_ASSERT(offers.size() == 1U);
  RC_ASSERT(replies.size() == 1U);
  const mad::Req& req = offers[0].req;
  const mad::Rep& rep = replies[0].rep;
  RC_ASSERT(b.engine().state(offers[0].handle) == State::Established);

  RC_ASSERT(req.service_id == params.service_id);
  RC_ASSERT(req.local_ca_guid == params.local_ca_guid);
  RC_ASSERT(req.local_qpn == params.qpn);
  RC_ASSERT(req.starting_psn == params.starting_psn);
  RC_ASSERT(req.responder_resources == params.responder_resources);
  RC_ASSERT(req.initiator_depth == params.initiator_depth);
  RC_ASSERT(req.retry_count == params.retry_count);
  RC_ASSERT(req.rnr_retry_count == params.rnr_retry_count);
  RC_ASSERT(req.srq == params.srq);
  RC_ASSERT(req.end_to_end_flow_control == params.end_to_end_flow_control);
  RC_ASSERT(req.transport_service == params.transport_service);
  RC_ASSERT(req.extended_transport == params.extended_transport);
  RC_ASSERT(req.ece_vendor == params.ece_vendor);
  RC_ASSERT(req.ece_options == params.ece_options);
  RC_ASSERT(req.remote_cm_response_timeout == *params.remote_cm_response_timeout);
  RC_ASSERT(req.local_cm_response_timeout == *params.local_cm_response_timeout);
  RC_ASSERT(req.max_cm_retries == *params.max_cm_retries);
  RC_ASSERT(req.pkey == params.path.pkey);
  RC_ASSERT(req.path_mtu.value() == params.path.mtu);
  RC_ASSERT(req.primary.packet_rate.value() == params.path.rate);
  RC_ASSERT(req.primary.sl == params.path.sl);
  RC_ASSERT(req.primary.flow_label == params.path.flow_label);
  RC_ASSERT(req.primary.hop_limit == params.path.hop_limit);
  RC_ASSERT(req.primary.traffic_class == params.path.traffic_class);
  RC_ASSERT(req.primary.subnet_local == (params.path.hop_limit <= 1));
  RC_ASSERT(req.alternate.has_value() == params.alternate_path.has_value());
  RC_ASSERT(begins_with(req.private_data, params.private_data));

  RC_ASSERT(rep.local_ca_guid == answer.local_ca_guid);
  RC_ASSERT(rep.local_qpn == answer.qpn);
  RC_ASSERT(rep.starting_psn == answer.starting_psn);
  RC_ASSERT(rep.responder_resources == answer.responder_resources);
  RC_ASSERT(rep.initiator_depth == answer.initiator_depth);
  RC_ASSERT(rep.rnr_retry_count == answer.rnr_retry_count);
  RC_ASSERT(rep.srq == answer.srq);
  RC_ASSERT(rep.end_to_end_flow_control == answer.end_to_end_flow_control);
  RC_ASSERT(rep.failover == answer.failover);
  RC_ASSERT(rep.ece_vendor == answer.ece_vendor);
  RC_ASSERT(rep.ece_options == answer.ece_options);
  RC_ASSERT(rep.target_ack_delay == *answer.target_ack_delay);
  RC_ASSERT(begins_with(rep.private_data, answer.private_data));

  // The ACK timeout covers both ways and the delay of the one who answers; the other end has it
  // from the REQ.
  const IbTimeout timeout = ack_timeout(config.ca_ack_delay, params.path.lifetime());
  RC_ASSERT(req.primary.local_ack_timeout == timeout);
  RC_ASSERT(timeout.exponent() == IbTimeout::kMaxExponent ||
            timeout.duration() >= 2 * params.path.lifetime().duration());
  // Both queue pairs rest for the same time.
  const Instant released = network.now();
  RC_ASSERT(a.disconnect(ours).has_value());
  network.run_for(std::chrono::microseconds(3));
  RC_ASSERT(b.engine().poll_timeout() ==
            released + std::chrono::microseconds(2) + timeout.duration());
  network.run_for(std::chrono::microseconds(3));
  RC_ASSERT(a.engine().poll_timeout() ==
            released + std::chrono::microseconds(4) + timeout.duration());
  RC_ASSERT(network.run());
  RC_ASSERT(a.engine().connections() + b.engine().connections() == 0U);
}

/// Every string of bytes is a sequence of commands, messages and times, as fuzz_cm_ops has it.
TEST(PairProperty, HoldsForAnySequence) {
  Rng rng(test::seed(15));
  const std::uint64_t sequences = test::rounds(300);
  std::uint64_t established = 0;
  for (std::uint64_t i = 0; i < sequences; ++i) {
    std::vector<std::uint8_t> bytes(2000);
    for (std::uint8_t& byte : bytes) {
      byte = static_cast<std::uint8_t>(rng.next());
    }
    EnginePair pair(bytes);
    ASSERT_STREQ(pair.run(), nullptr) << "sequence " << i;
    established += pair.established();
  }
  EXPECT_GT(established, 0U) << "sequences that lead to nothing prove nothing";
}

}  // namespace
}  // namespace wireup::cm
