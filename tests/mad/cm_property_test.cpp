// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "mad/cm.hpp"
#include "mad/cm_vectors.hpp"

namespace wireup::mad {
namespace {

/// Zero, all ones, or anything that fits, each about as often.
template <typename T>
T any_id() {
  const auto most = static_cast<std::uint64_t>(T::kMax);
  const auto any = *rc::gen::arbitrary<std::uint64_t>();
  const auto value = *rc::gen::element<std::uint64_t>(0, most, any & most);
  return T(static_cast<typename T::ValueType>(value));
}

template <typename T>
T any_number() {
  return *rc::gen::element<T>(T{0}, static_cast<T>(~T{0}), *rc::gen::arbitrary<T>());
}

template <typename E>
E any_of_four() {
  return static_cast<E>(*rc::gen::inRange<unsigned>(0, 4));
}

IbTimeout any_timeout() {
  return IbTimeout(static_cast<std::uint8_t>(*rc::gen::inRange<unsigned>(0, 32)));
}

template <std::size_t N>
std::array<std::uint8_t, N> any_bytes() {
  const auto bytes =
      *rc::gen::container<std::vector<std::uint8_t>>(N, rc::gen::arbitrary<std::uint8_t>());
  std::array<std::uint8_t, N> result{};
  std::copy(bytes.begin(), bytes.end(), result.begin());
  return result;
}

ReqPath any_path(bool is_alternate) {
  ReqPath path;
  path.local_lid = any_id<Lid>();
  if (is_alternate && path.local_lid.is_zero()) {
    path.local_lid = Lid(1);
  }
  path.remote_lid = any_id<Lid>();
  path.local_gid = Gid(any_bytes<16>());
  path.remote_gid = Gid(any_bytes<16>());
  path.flow_label = any_id<FlowLabel>();
  path.packet_rate = any_id<CmRate>();
  path.traffic_class = any_number<std::uint8_t>();
  path.hop_limit = any_number<std::uint8_t>();
  path.sl = any_id<Sl>();
  path.subnet_local = *rc::gen::arbitrary<bool>();
  path.local_ack_timeout = any_timeout();
  return path;
}

Req any_req() {
  Req req;
  req.tid = any_id<Tid>();
  req.local_comm_id = any_id<CommId>();
  req.ece_vendor = any_id<EceVendor>();
  req.ece_options = any_number<std::uint32_t>();
  req.service_id = any_id<ServiceId>();
  req.local_ca_guid = any_id<Guid>();
  req.local_qkey = any_id<QKey>();
  req.local_qpn = any_id<Qpn>();
  req.responder_resources = any_number<std::uint8_t>();
  req.local_eecn = any_id<Eecn>();
  req.initiator_depth = any_number<std::uint8_t>();
  req.remote_eecn = any_id<Eecn>();
  req.remote_cm_response_timeout = any_timeout();
  req.transport_service = any_of_four<TransportService>();
  req.end_to_end_flow_control = *rc::gen::arbitrary<bool>();
  req.starting_psn = any_id<Psn>();
  req.local_cm_response_timeout = any_timeout();
  req.retry_count = any_id<RetryCount>();
  req.pkey = PKey(any_number<std::uint16_t>());
  req.path_mtu = any_id<CmMtu>();
  req.rdc_exists = *rc::gen::arbitrary<bool>();
  req.rnr_retry_count = any_id<RnrRetryCount>();
  req.max_cm_retries = any_id<CmRetryCount>();
  req.srq = *rc::gen::arbitrary<bool>();
  req.extended_transport = any_id<ExtendedTransport>();
  req.primary = any_path(false);
  if (*rc::gen::arbitrary<bool>()) {
    req.alternate = any_path(true);
  }
  req.sap_supported = *rc::gen::arbitrary<bool>();
  req.private_data = any_bytes<Req::kPrivateSize>();
  return req;
}

Rep any_rep() {
  Rep rep;
  rep.tid = any_id<Tid>();
  rep.local_comm_id = any_id<CommId>();
  rep.remote_comm_id = any_id<CommId>();
  rep.local_qkey = any_id<QKey>();
  rep.local_qpn = any_id<Qpn>();
  rep.ece_vendor = any_id<EceVendor>();
  rep.ece_options = any_number<std::uint32_t>();
  rep.local_eecn = any_id<Eecn>();
  rep.starting_psn = any_id<Psn>();
  rep.responder_resources = any_number<std::uint8_t>();
  rep.initiator_depth = any_number<std::uint8_t>();
  rep.target_ack_delay = any_timeout();
  rep.failover = any_of_four<Failover>();
  rep.end_to_end_flow_control = *rc::gen::arbitrary<bool>();
  rep.rnr_retry_count = any_id<RnrRetryCount>();
  rep.srq = *rc::gen::arbitrary<bool>();
  rep.local_ca_guid = any_id<Guid>();
  rep.private_data = any_bytes<Rep::kPrivateSize>();
  return rep;
}

template <std::size_t N>
BoundedBytes<N> any_info() {
  const auto bytes = any_bytes<N>();
  const auto size = *rc::gen::inRange<std::size_t>(0, N + 1);
  return *BoundedBytes<N>::make(std::span(bytes).first(size));
}

Rej any_rej() {
  Rej rej;
  rej.tid = any_id<Tid>();
  rej.local_comm_id = any_id<CommId>();
  rej.remote_comm_id = any_id<CommId>();
  rej.message = any_of_four<RejOf>();
  rej.reason = any_number<std::uint16_t>();
  rej.ari = any_info<Rej::kAriSize>();
  rej.private_data = any_bytes<Rej::kPrivateSize>();
  return rej;
}

template <typename M>
void expect_round_trip(const M& message) {
  const auto parsed = parse_cm(serialize(message));
  RC_ASSERT(parsed.has_value());
  RC_ASSERT(std::holds_alternative<M>(*parsed));
  RC_ASSERT(std::get<M>(*parsed) == message);
}

RC_GTEST_PROP(CmCodecProperty, ReqComesBack, ()) {
  expect_round_trip(any_req());
}
RC_GTEST_PROP(CmCodecProperty, RepComesBack, ()) {
  expect_round_trip(any_rep());
}
RC_GTEST_PROP(CmCodecProperty, RejComesBack, ()) {
  expect_round_trip(any_rej());
}
RC_GTEST_PROP(CmCodecProperty, MraComesBack, ()) {
  expect_round_trip(Mra{any_id<Tid>(), any_id<CommId>(), any_id<CommId>(), any_of_four<MraOf>(),
                        any_timeout(), any_bytes<Mra::kPrivateSize>()});
}
RC_GTEST_PROP(CmCodecProperty, RtuComesBack, ()) {
  expect_round_trip(
      Rtu{any_id<Tid>(), any_id<CommId>(), any_id<CommId>(), any_bytes<Rtu::kPrivateSize>()});
}
RC_GTEST_PROP(CmCodecProperty, DreqComesBack, ()) {
  expect_round_trip(Dreq{any_id<Tid>(), any_id<CommId>(), any_id<CommId>(), any_id<Qpn>(),
                         any_bytes<Dreq::kPrivateSize>()});
}
RC_GTEST_PROP(CmCodecProperty, DrepComesBack, ()) {
  expect_round_trip(
      Drep{any_id<Tid>(), any_id<CommId>(), any_id<CommId>(), any_bytes<Drep::kPrivateSize>()});
}

RC_GTEST_PROP(CmCodecProperty, LapComesBack, ()) {
  expect_round_trip(Lap{any_id<Tid>(), any_id<CommId>(), any_id<CommId>(), any_id<Qpn>(),
                        any_timeout(), any_path(false), any_bytes<Lap::kPrivateSize>()});
}
RC_GTEST_PROP(CmCodecProperty, AprComesBack, ()) {
  expect_round_trip(Apr{any_id<Tid>(), any_id<CommId>(), any_id<CommId>(),
                        any_number<std::uint8_t>(), any_info<Apr::kInfoSize>(),
                        any_bytes<Apr::kPrivateSize>()});
}
RC_GTEST_PROP(CmCodecProperty, SidrReqComesBack, ()) {
  expect_round_trip(SidrReq{any_id<Tid>(), any_id<CommId>(), PKey(any_number<std::uint16_t>()),
                            any_id<ServiceId>(), any_bytes<SidrReq::kPrivateSize>()});
}
RC_GTEST_PROP(CmCodecProperty, SidrRepComesBack, ()) {
  expect_round_trip(SidrRep{any_id<Tid>(), any_id<CommId>(), any_number<std::uint8_t>(),
                            any_info<SidrRep::kInfoSize>(), any_id<EceVendor>(),
                            any_number<std::uint32_t>(), any_id<Qpn>(), any_id<ServiceId>(),
                            any_id<QKey>(), any_bytes<SidrRep::kPrivateSize>()});
}

/// Random bytes under a good header: read or refused, and what was read is written as it was read.
RC_GTEST_PROP(CmCodecProperty, AnyBytesAreReadOrRefused, ()) {
  Mad bytes = any_bytes<kMadSize>();
  const Mad header = req_bytes();
  std::copy(header.begin(), header.begin() + 8, bytes.begin());
  bytes[16] = 0;
  bytes[17] = static_cast<std::uint8_t>(*rc::gen::inRange<unsigned>(0x0F, 0x1C));
  const auto parsed = parse_cm(bytes);
  if (parsed) {
    const auto again = parse_cm(serialize(*parsed));
    RC_ASSERT(again.has_value());
    RC_ASSERT(*again == *parsed);
  }
}

/// One more than the widest value of a field is refused where a value comes in.
TEST(CmCodecProperty, ValuesBeyondTheirFieldAreRefused) {
  EXPECT_TRUE(RetryCount::make(7));
  EXPECT_FALSE(RetryCount::make(8));
  EXPECT_TRUE(CmRetryCount::make(15));
  EXPECT_FALSE(CmRetryCount::make(16));
  EXPECT_TRUE(CmRate::make(63));
  EXPECT_FALSE(CmRate::make(64));
  EXPECT_TRUE(Eecn::make(0xFFFFFF));
  EXPECT_FALSE(Eecn::make(0x1000000));
  EXPECT_TRUE(FlowLabel::make(0xFFFFF));
  EXPECT_FALSE(FlowLabel::make(0x100000));
}

}  // namespace
}  // namespace wireup::mad
