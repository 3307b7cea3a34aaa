// SPDX-License-Identifier: BSD-3-Clause
//
// ibacm's client protocol. Expected bytes are written out by offset; the integers that are in the
// host's byte order are put with memcpy.
#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "acm/server/client_message.hpp"
#include "base/rng.hpp"
#include "support/seed.hpp"

namespace wireup::acm {
namespace {

using Bytes = std::vector<std::uint8_t>;
using mad::AcmAddress;
using mad::PathRecord;

constexpr Tid kTid(0x0102030405060708);

void put(Bytes& to, std::size_t at, std::initializer_list<std::uint8_t> bytes) {
  ASSERT_LE(at + bytes.size(), to.size());
  std::copy(bytes.begin(), bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

template <typename T>
void put_host(Bytes& to, std::size_t at, T value) {
  ASSERT_LE(at + sizeof(T), to.size());
  std::memcpy(to.data() + at, &value, sizeof(T));
}

/// Version 1, the operation, TID 1 2 3 4 5 6 7 8.
Bytes header(std::uint8_t op, std::size_t size) {
  Bytes bytes(size);
  put(bytes, 0, {1, op});
  if ((op & 0x0FU) == 1) {
    put_host(bytes, 6, static_cast<std::uint16_t>(size));
  } else {
    put(bytes, 6, {static_cast<std::uint8_t>(size >> 8U), static_cast<std::uint8_t>(size)});
  }
  put(bytes, 8, {1, 2, 3, 4, 5, 6, 7, 8});
  return bytes;
}

Bytes resolve_bytes(std::size_t entries) {
  return header(1, 16 + 72 * entries);
}

void put_entry(Bytes& to, std::size_t index, std::uint32_t flags, std::uint16_t type,
               std::initializer_list<std::uint8_t> value) {
  put_host(to, 16 + 72 * index, flags);
  put_host(to, 16 + 72 * index + 4, type);
  put(to, 16 + 72 * index + 8, value);
}

const std::array<std::uint8_t, 4> kFour{10, 77, 0, 2};
const std::array<std::uint8_t, 16> kSix{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};

PathRecord sample_path() {
  PathRecord path;
  path.service_id = ServiceId(0x1122334455667788);
  path.dgid = Gid::make(0xFE80000000000000, Guid(0xD1));
  path.sgid = Gid::make(0xFE80000000000000, Guid(0x51));
  path.dlid = Lid(0x0A0B);
  path.slid = Lid(0x0C0D);
  path.flow_label = FlowLabel(0x54321);
  path.hop_limit = 9;
  path.traffic_class = 6;
  path.reversible = true;
  path.numb_path = 1;
  path.pkey = PKey(0x8001);
  path.qos_class = 0x123;
  path.sl = Sl(4);
  path.mtu_selector = mad::Selector::Exactly;
  path.mtu = 4;
  path.rate_selector = mad::Selector::Exactly;
  path.rate = 3;
  path.packet_lifetime_selector = mad::Selector::Exactly;
  path.packet_lifetime = 18;
  path.preference = 5;
  return path;
}

void put_path_entry(Bytes& to, std::size_t index, std::uint32_t flags) {
  put_entry(to, index, flags, 0x10,
            {0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,  // service id
             0xFE, 0x80, 0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0xD1,  // DGID
             0xFE, 0x80, 0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0x51,  // SGID
             0x0A, 0x0B, 0x0C, 0x0D,             // DLID, SLID
             0x05, 0x43, 0x21, 9,                // flow label, hop limit
             6,    0x81, 0x80, 0x01,             // class, reversible, P_Key
             0x12, 0x34, 0x84, 0x83, 0x92, 5});  // QoS and SL, MTU, rate, lifetime, preference
}

ClientRequest sample_request(const ClientRequest::Body& body, ClientOp op = ClientOp::Resolve) {
  return {op, kTid, body};
}

ClientRequest decoded(const Bytes& bytes) {
  auto request = decode_client_request(bytes);
  EXPECT_TRUE(request.has_value()) << request.error().what();
  return request.value_or(ClientRequest{});
}

/// The status that the request is refused with; Success when it is not.
ClientStatus refused(const Bytes& bytes) {
  const ClientRequest request = decoded(bytes);
  const auto* refusal = std::get_if<ClientRefusal>(&request.body);
  return refusal != nullptr ? refusal->status : ClientStatus::Success;
}

void expect_both_ways(const ClientRequest& request, const Bytes& bytes) {
  EXPECT_EQ(encode_client_request(request), bytes);
  EXPECT_EQ(decoded(bytes), request);
}

void expect_both_ways(const ClientReply& reply, const Bytes& bytes) {
  EXPECT_EQ(encode_client_reply(reply), bytes);
  const auto again = decode_client_reply(bytes);
  ASSERT_TRUE(again.has_value()) << again.error().what();
  EXPECT_EQ(*again, reply);
}

TEST(ClientRequest, AddressesByOffset) {
  Bytes bytes = resolve_bytes(2);
  put_entry(bytes, 0, 0x1, 2, {10, 77, 0, 1});
  put_entry(bytes, 1, 0x2, 2, {10, 77, 0, 2});
  expect_both_ways(sample_request(AddressQuestion{AcmAddress::ipv4({10, 77, 0, 1}),
                                                  AcmAddress::ipv4(kFour), std::nullopt, false}),
                   bytes);
}

TEST(ClientRequest, EveryKindOfAddress) {
  Bytes bytes = resolve_bytes(1);
  const auto question = [](const AcmAddress& to) {
    return sample_request(AddressQuestion{std::nullopt, to, std::nullopt, false});
  };
  put_entry(bytes, 0, 0x2, 1, {'n', 'o', 'd', 'e', '2'});
  expect_both_ways(question(*AcmAddress::name("node2")), bytes);
  bytes = resolve_bytes(1);
  put_entry(bytes, 0, 0x2, 2, {10, 77, 0, 2});
  expect_both_ways(question(AcmAddress::ipv4(kFour)), bytes);
  bytes = resolve_bytes(1);
  put_entry(bytes, 0, 0x2, 3, {0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7});
  expect_both_ways(question(AcmAddress::ipv6(kSix)), bytes);
  bytes = resolve_bytes(1);
  put_entry(bytes, 0, 0x2, 4, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xD1});
  expect_both_ways(question(AcmAddress::gid(sample_path().dgid)), bytes);
  bytes = resolve_bytes(1);
  put_entry(bytes, 0, 0x2, 5, {0x0A, 0x0B});
  expect_both_ways(question(AcmAddress::lid(Lid(0x0A0B))), bytes);
}

TEST(ClientRequest, ANameOf64Characters) {
  const std::string name(64, 'x');
  const ClientRequest request =
      sample_request(AddressQuestion{std::nullopt, *AcmAddress::name(name), std::nullopt, false});
  EXPECT_EQ(decoded(encode_client_request(request)), request);
}

TEST(ClientRequest, RouteHintsAndNoDelay) {
  Bytes bytes = resolve_bytes(3);
  put_entry(bytes, 0, 0x1, 2, {10, 77, 0, 1});
  put_entry(bytes, 1, 0x40000002, 2, {10, 77, 0, 2});
  put_path_entry(bytes, 2, 0);
  expect_both_ways(sample_request(AddressQuestion{AcmAddress::ipv4({10, 77, 0, 1}),
                                                  AcmAddress::ipv4(kFour), sample_path(), true}),
                   bytes);
}

TEST(ClientRequest, PathsByOffset) {
  Bytes bytes = resolve_bytes(1);
  put_path_entry(bytes, 0, 0);
  expect_both_ways(sample_request(PathQuestion{sample_path(), false, false}), bytes);
  put_path_entry(bytes, 0, 0x80000000);
  expect_both_ways(sample_request(PathQuestion{sample_path(), false, true}), bytes);
  put_path_entry(bytes, 0, 0x40000000);
  expect_both_ways(sample_request(PathQuestion{sample_path(), true, false}), bytes);
}

TEST(ClientRequest, CountersByOffset) {
  Bytes bytes = header(2, 16);
  EXPECT_EQ(bytes[6], 0) << "big-endian";
  EXPECT_EQ(bytes[7], 16);
  expect_both_ways(sample_request(PerfQuery{0, std::nullopt}, ClientOp::PerfQuery), bytes);
  put(bytes, 4, {3});
  expect_both_ways(sample_request(PerfQuery{3, std::nullopt}, ClientOp::PerfQuery), bytes);
  bytes = header(2, 88);
  put_entry(bytes, 0, 0x1, 2, {10, 77, 0, 2});
  expect_both_ways(sample_request(PerfQuery{0, AcmAddress::ipv4(kFour)}, ClientOp::PerfQuery),
                   bytes);
}

TEST(ClientRequest, EndpointsByOffset) {
  Bytes bytes = header(3, 16);
  put(bytes, 3, {7, 2});
  expect_both_ways(sample_request(EndpointQuery{7, 2}, ClientOp::EndpointQuery), bytes);
}

// What clients leave on their stack behind an address, and in reserved fields, says nothing: the
// same address is the same address (a comparison of the whole field once made it another one).
TEST(ClientRequest, GarbageBehindAnAddressIsNotPartOfIt) {
  struct Case {
    std::uint16_t type;
    AcmAddress address;
    std::size_t size;
  };
  const std::array cases{
      Case{1, *AcmAddress::name("node2"), 6},  // its NUL is part of it
      Case{2, AcmAddress::ipv4(kFour), 4},     Case{3, AcmAddress::ipv6(kSix), 16},
      Case{4, AcmAddress::gid(Gid(kSix)), 16}, Case{5, AcmAddress::lid(Lid(0x0A0B)), 2},
  };
  for (const Case& one : cases) {
    Bytes bytes = resolve_bytes(1);
    put_entry(bytes, 0, 0x2, one.type, {});
    std::fill(bytes.begin() + 16 + 6, bytes.end(), std::uint8_t{0xA5});  // and the reserved field
    std::copy_n(one.address.bytes().begin(), one.size, bytes.begin() + 16 + 8);
    EXPECT_EQ(decoded(bytes),
              sample_request(AddressQuestion{std::nullopt, one.address, std::nullopt, false}))
        << one.type;
  }
}

TEST(ClientRequest, ReservedHeaderBytesSayNothing) {
  Bytes bytes = resolve_bytes(1);
  put_entry(bytes, 0, 0x2, 2, {10, 77, 0, 2});
  put(bytes, 2, {9, 9, 9, 9});
  EXPECT_EQ(decoded(bytes), sample_request(AddressQuestion{std::nullopt, AcmAddress::ipv4(kFour),
                                                           std::nullopt, false}));
}

TEST(ClientRequest, EightEntriesAreReadAndNineAreNot) {
  // Without a source there is room for no ninth entry in the reply of a daemon that appends one.
  Bytes bytes = resolve_bytes(8);
  for (std::size_t i = 0; i < 8; ++i) {
    put_entry(bytes, i, i == 0 ? 0x2 : 0x0, 2, {10, 77, 0, 2});
  }
  ASSERT_EQ(bytes.size(), kMaxClientRequest);
  EXPECT_EQ(decoded(bytes), sample_request(AddressQuestion{std::nullopt, AcmAddress::ipv4(kFour),
                                                           std::nullopt, false}));
  EXPECT_FALSE(decode_client_request(resolve_bytes(9)).has_value());
}

TEST(ClientRequest, WhatCannotBeAnsweredIsRefusedByItsStatus) {
  EXPECT_EQ(refused(resolve_bytes(0)), ClientStatus::DestinationAddress) << "no entry";

  const auto two = [](std::uint32_t first, std::uint32_t second) {
    Bytes bytes = resolve_bytes(2);
    put_entry(bytes, 0, first, 2, {10, 77, 0, 1});
    put_entry(bytes, 1, second, 2, {10, 77, 0, 2});
    return refused(bytes);
  };
  EXPECT_EQ(two(1, 2), ClientStatus::Success);
  EXPECT_EQ(two(1, 1), ClientStatus::SourceAddress);
  EXPECT_EQ(two(2, 2), ClientStatus::DestinationAddress);
  EXPECT_EQ(two(1, 0), ClientStatus::DestinationAddress);
  EXPECT_EQ(two(0, 0), ClientStatus::DestinationAddress);
  EXPECT_EQ(two(3, 2), ClientStatus::Invalid);

  // 0x102 is not an IPv4 address.
  for (const int type : {0, 6, 0x0F, 0x11, 0x102, 0xFFFF}) {
    Bytes bytes = resolve_bytes(1);
    put_entry(bytes, 0, 0x2, static_cast<std::uint16_t>(type), {10, 77, 0, 2});
    EXPECT_EQ(refused(bytes), ClientStatus::DestinationType) << type;
    put_entry(bytes, 0, 0x1, static_cast<std::uint16_t>(type), {10, 77, 0, 2});
    EXPECT_EQ(refused(bytes), ClientStatus::SourceType) << type;
  }
  Bytes empty_name = resolve_bytes(1);
  put_entry(empty_name, 0, 0x2, 1, {0, 'x'});
  EXPECT_EQ(refused(empty_name), ClientStatus::DestinationAddress);

  Bytes nowhere = resolve_bytes(1);
  put_entry(nowhere, 0, 0, 0x10, {});
  EXPECT_EQ(refused(nowhere), ClientStatus::DestinationAddress) << "neither DLID nor DGID";
  put_entry(nowhere, 0, 0x80000000, 0x10, {});
  EXPECT_EQ(refused(nowhere), ClientStatus::Success) << "the SA may judge it";
  Bytes long_query = resolve_bytes(2);
  put_path_entry(long_query, 0, 0x80000000);
  put_path_entry(long_query, 1, 0);
  EXPECT_EQ(refused(long_query), ClientStatus::Invalid);

  Bytes counters = header(2, 88);
  put_entry(counters, 0, 0x2, 2, {10, 77, 0, 2});
  EXPECT_EQ(refused(counters), ClientStatus::SourceAddress);
  put_path_entry(counters, 0, 0x1);
  EXPECT_EQ(refused(counters), ClientStatus::SourceAddress);
}

TEST(ClientRequest, WithoutAFrameThereIsNoRequest) {
  const auto size_of = [](const Bytes& bytes) {
    return client_request_size(std::span(bytes).first<16>());
  };
  EXPECT_EQ(*size_of(resolve_bytes(2)), 160U);
  EXPECT_EQ(*size_of(header(2, 88)), 88U);

  for (const int op : {0, 4, 15, 0x11, 0x21, 0x81, 0x82, 0xFF}) {
    EXPECT_FALSE(size_of(header(static_cast<std::uint8_t>(op), 16)).has_value()) << op;
  }
  for (const int version : {0, 2, 255}) {
    Bytes bytes = resolve_bytes(0);
    bytes[0] = static_cast<std::uint8_t>(version);
    EXPECT_FALSE(size_of(bytes).has_value()) << version;
  }
  Bytes bytes(16);
  for (const int length : {0, 15, 17, 87, 89, 591, 593, 664, 65535}) {
    bytes = header(1, 16);
    put_host(bytes, 6, static_cast<std::uint16_t>(length));
    EXPECT_FALSE(size_of(bytes).has_value()) << length;
  }
  EXPECT_FALSE(size_of(header(2, 160)).has_value()) << "counters of two addresses";
  EXPECT_FALSE(size_of(header(3, 88)).has_value());
  // Each byte order only where it belongs.
  bytes = header(1, 16);
  put(bytes, 6, {0, 16});
  const bool is_big_endian_host = [] {
    std::uint16_t one = 1;
    std::uint8_t first = 0;
    std::memcpy(&first, &one, 1);
    return first == 0;
  }();
  EXPECT_EQ(size_of(bytes).has_value(), is_big_endian_host);
  bytes = header(3, 16);
  put(bytes, 6, {16, 0});
  EXPECT_FALSE(size_of(bytes).has_value());
}

TEST(ClientRequest, IsExactlyAsLongAsItClaims) {
  Bytes good = resolve_bytes(2);
  put_entry(good, 0, 0x1, 2, {10, 77, 0, 1});
  put_entry(good, 1, 0x2, 2, {10, 77, 0, 2});
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(decode_client_request(std::span(good).first(size)).has_value()) << size;
  }
  good.push_back(0);
  EXPECT_FALSE(decode_client_request(good).has_value());
}

TEST(ClientReply, PathsByOffset) {
  Bytes bytes = resolve_bytes(1);
  put_path_entry(bytes, 0, 0x2B);
  ClientReply reply{ClientOp::Resolve, kTid, ClientStatus::Success,
                    ResolveReply{{{path_flag::kUniversal, sample_path()}}, std::nullopt}};
  expect_both_ways(reply, bytes);

  bytes = resolve_bytes(2);
  put_path_entry(bytes, 0, 0x2B);
  put_entry(bytes, 1, 0x1, 2, {10, 77, 0, 2});
  std::get<ResolveReply>(reply.body).source = AcmAddress::ipv4(kFour);
  expect_both_ways(reply, bytes);

  bytes = resolve_bytes(3);
  put_path_entry(bytes, 0, 0x2B);
  put_path_entry(bytes, 1, 0x0A);
  put_path_entry(bytes, 2, 0x12);
  reply.body = ResolveReply{{{path_flag::kUniversal, sample_path()},
                             {path_flag::kUnidirectional, sample_path()},
                             {path_flag::kPrimary | path_flag::kInbound, sample_path()}},
                            std::nullopt};
  expect_both_ways(reply, bytes);
}

TEST(ClientReply, FailuresByOffset) {
  Bytes bytes = header(1, 16);
  bytes[2] = 3;
  const ClientRequest request = sample_request(PathQuestion{sample_path(), false, false});
  expect_both_ways(refuse(request, ClientStatus::NoData), bytes);
  // ibacm's core marks its failures as replies, its provider does not.
  bytes[1] = 0x81;
  EXPECT_EQ(decode_client_reply(bytes)->status, ClientStatus::NoData);

  bytes = header(0x82, 16);
  bytes[2] = 7;
  const ClientRequest counters = sample_request(PerfQuery{9, std::nullopt}, ClientOp::PerfQuery);
  expect_both_ways(refuse(counters, ClientStatus::SourceAddress), bytes);
  bytes = header(0x83, 16);
  bytes[2] = 200;
  const ClientRequest endpoint = sample_request(EndpointQuery{9, 1}, ClientOp::EndpointQuery);
  expect_both_ways(refuse(endpoint, static_cast<ClientStatus>(200)), bytes);
}

TEST(ClientReply, CountersByOffset) {
  Bytes bytes = header(0x82, 72);
  put(bytes, 3, {7, 2, 0});
  put(bytes, 16, {1, 2, 3, 4, 5, 6, 7, 8});
  put(bytes, 16 + 8 * 6 + 7, {9});
  PerfReply counters{2, std::vector<std::uint64_t>(kClientCounters)};
  counters.counters[static_cast<std::size_t>(ClientCounter::Errors)] = 0x0102030405060708;
  counters.counters[static_cast<std::size_t>(ClientCounter::RouteCacheHits)] = 9;
  expect_both_ways(ClientReply{ClientOp::PerfQuery, kTid, ClientStatus::Success, counters}, bytes);
}

TEST(ClientReply, EndpointsByOffset) {
  Bytes bytes = header(0x83, 16 + 80 + 2 * 64);
  EXPECT_EQ(bytes[6], 0) << "big-endian";
  EXPECT_EQ(bytes[7], 224);
  put(bytes, 3, {4, 1, 0});
  put(bytes, 16, {1, 2, 3, 4, 5, 6, 7, 8});        // device
  put(bytes, 24, {2, 3, 0, 0, 0x80, 0x01, 0, 2});  // port, ports, P_Key, addresses
  put(bytes, 32, {'i', 'b', 'a', 'c', 'm', 'p'});
  put(bytes, 96, {'n', 'o', 'd', 'e', '1'});
  put(bytes, 160, {'1', '0', '.', '7', '7', '.', '0', '.', '1'});
  EndpointReply endpoint;
  endpoint.query = {4, 1};
  endpoint.device = Guid(0x0102030405060708);
  endpoint.port = 2;
  endpoint.ports = 3;
  endpoint.pkey = PKey(0x8001);
  endpoint.provider = "ibacmp";
  endpoint.addresses = {"node1", "10.77.0.1"};
  expect_both_ways(ClientReply{ClientOp::EndpointQuery, kTid, ClientStatus::Success, endpoint},
                   bytes);
}

TEST(ClientReply, EndpointsWithAsManyAddressesAsFit) {
  EndpointReply endpoint;
  endpoint.addresses.assign(EndpointReply::kMaxAddresses, std::string(80, 'x'));
  const Bytes bytes = encode_client_reply(
      ClientReply{ClientOp::EndpointQuery, kTid, ClientStatus::Success, endpoint});
  EXPECT_EQ(bytes.size(), 16U + 80 + 1022 * 64);
  EXPECT_EQ(*client_reply_size(std::span(bytes).first<16>()), bytes.size());
  EXPECT_EQ(bytes.back(), 0) << "each text ends";
  const auto again = decode_client_reply(bytes);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(std::get<EndpointReply>(again->body).addresses.back(), std::string(63, 'x'));
}

TEST(ClientReply, HostileOnes) {
  const auto read = [](const Bytes& bytes) { return decode_client_reply(bytes).has_value(); };
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read(header(1, 16))) << "good, and no path";
  Bytes bytes = resolve_bytes(1);
  put_path_entry(bytes, 0, 0x2B);
  ASSERT_TRUE(read(bytes));
  for (const int op : {0, 4, 0x84, 0x11, 0xFF}) {
    Bytes other = bytes;
    other[1] = static_cast<std::uint8_t>(op);
    EXPECT_FALSE(read(other)) << op;
  }
  bytes[0] = 2;
  EXPECT_FALSE(read(bytes)) << "version";
  EXPECT_FALSE(read(header(1, 17)));
  bytes = resolve_bytes(9);
  for (std::size_t i = 0; i < 9; ++i) {
    put_path_entry(bytes, i, 0x2B);
  }
  EXPECT_FALSE(read(bytes)) << "nine entries";
  bytes = resolve_bytes(3);
  put_path_entry(bytes, 0, 0x2B);
  put_entry(bytes, 1, 0x1, 2, {10, 77, 0, 2});
  put_entry(bytes, 2, 0x1, 2, {10, 77, 0, 2});
  EXPECT_FALSE(read(bytes)) << "two sources";
  put_entry(bytes, 2, 0x1, 6, {});
  EXPECT_FALSE(read(bytes)) << "unknown type";

  bytes = header(0x82, 72);
  for (const int count : {0, 6, 8, 255}) {
    bytes[3] = static_cast<std::uint8_t>(count);
    EXPECT_FALSE(read(bytes)) << count;
  }
  EXPECT_FALSE(read(header(0x83, 16))) << "no body";
  EXPECT_FALSE(read(header(0x83, 95))) << "a byte short";
  EXPECT_TRUE(read(header(0x83, 96)));
  bytes = header(0x83, 160);
  EXPECT_FALSE(read(bytes)) << "an address that is not counted";
  put(bytes, 30, {0xFF, 0xFF});
  EXPECT_FALSE(read(bytes)) << "more addresses than there are";
}

TEST(ClientReply, TextsArePrintable) {
  Bytes bytes = header(0x83, 96);
  put(bytes, 32, {'a', 0x1B, '[', 0xFF, 'b', 0, 'c'});
  const auto reply = decode_client_reply(bytes);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(std::get<EndpointReply>(reply->body).provider, "a?[?b");
}

TEST(ClientStatus, NamesAndErrnoValues) {
  const std::array<int, 11> errors{0,      ENOMEM,        EINVAL,    ENODATA,
                                   EINVAL, ENOTCONN,      ETIMEDOUT, EADDRNOTAVAIL,
                                   EINVAL, EADDRNOTAVAIL, EINVAL};
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const auto status = static_cast<ClientStatus>(i);
    EXPECT_EQ(status_errno(status), errors[i]) << i;
    EXPECT_EQ(status_name(status) == "unknown", i == 4) << i;
    EXPECT_FALSE(status_sentence(status).empty());
  }
  EXPECT_EQ(status_name(ClientStatus::DestinationType), "EDESTTYPE");
  EXPECT_EQ(status_name(static_cast<ClientStatus>(200)), "unknown");
  EXPECT_EQ(status_errno(static_cast<ClientStatus>(200)), EINVAL);
}

// Whatever is read from any bytes is what writing and reading it again gives.
TEST(ClientMessage, WhatIsReadComesBack) {
  Rng rng(wireup::test::seed(6));
  const std::uint64_t rounds = wireup::test::rounds(20000);
  std::uint64_t good = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Bytes bytes = resolve_bytes(rng.below(9));
    for (std::size_t at = 16; at < bytes.size(); at += 72) {
      const std::uint64_t kind = rng.below(7);
      put_host(bytes, at,
               static_cast<std::uint32_t>(rng.below(4)) | static_cast<std::uint32_t>(rng.below(4))
                                                              << 30U);
      put_host(bytes, at + 4, static_cast<std::uint16_t>(kind == 6 ? 0x10 : kind));
      for (std::size_t i = at + 8; i < at + 72; ++i) {
        bytes[i] = static_cast<std::uint8_t>(rng.next());
      }
    }
    const auto request = decode_client_request(bytes);
    ASSERT_TRUE(request.has_value()) << request.error().what();
    if (!std::holds_alternative<ClientRefusal>(request->body)) {
      ++good;
      ASSERT_EQ(decoded(encode_client_request(*request)), *request);
    }
    const auto reply = decode_client_reply(bytes);
    if (reply.has_value()) {
      const auto again = decode_client_reply(encode_client_reply(*reply));
      ASSERT_TRUE(again.has_value());
      ASSERT_EQ(*again, *reply);
    }
  }
  EXPECT_GT(good, rounds / 50) << "the test hardly tests";
}

}  // namespace
}  // namespace wireup::acm
