// SPDX-License-Identifier: BSD-3-Clause
#include "mad/acm.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace wireup::mad {
namespace {

void put(Mad& to, std::size_t at, std::initializer_list<std::uint8_t> bytes) {
  std::copy(bytes.begin(), bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

const Gid kGroup0({0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0x00, 0x03, 0x04});
const Gid kGroup1({0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0x00, 0x10, 0x05});

Gid gid_of(std::uint8_t last) {
  Gid::Bytes bytes{0xFE, 0x80};
  bytes[15] = last;
  return Gid(bytes);
}

AcmRequest sample_request() {
  AcmRequest request{
      Tid(0x0102030405060708), AcmAddress::gid(gid_of(0xD1)), AcmAddress::gid(gid_of(0x51)), {}};
  request.groups.gids[0] = kGroup0;
  request.groups.gids[1] = kGroup1;
  request.groups.count = 2;
  return request;
}

Mad sample_request_bytes() {
  Mad bytes{};
  put(bytes, 0, {1, 0x2C, 1, 0x01});  // base, ACM class, class version, Get
  put(bytes, 4, {0, 0, 0, 1});        // status, control: resolve
  put(bytes, 8, {1, 2, 3, 4, 5, 6, 7, 8});
  put(bytes, 16, {4, 64, 4, 64});  // destination type and length, source type and length
  put(bytes, 20, {2, 0, 0, 0});    // group count
  put(bytes, 24, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xD1});
  put(bytes, 88, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x51});
  put(bytes, 152, {0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0x00, 0x03, 0x04});
  put(bytes, 168, {0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0x00, 0x10, 0x05});
  return bytes;
}

TEST(AcmMessage, RequestByOffset) {
  Mad bytes;
  serialize(sample_request(), bytes);
  EXPECT_EQ(bytes, sample_request_bytes());
  const auto parsed = parse_acm(sample_request_bytes());
  ASSERT_TRUE(parsed.has_value()) << parsed.error().what();
  EXPECT_EQ(std::get<AcmRequest>(*parsed), sample_request());
}

TEST(AcmMessage, ResponseByOffset) {
  Mad expected{};
  put(expected, 0, {1, 0x2C, 1, 0x81, 0, 0, 0, 1});
  put(expected, 8, {0xF1, 2, 3, 4, 5, 6, 7, 8});
  put(expected, 20, {1});
  put(expected, 152, {0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0x00, 0x10, 0x05});
  const AcmResponse response{Tid(0xF102030405060708), 0, kGroup1};
  Mad bytes;
  serialize(response, bytes);
  EXPECT_EQ(bytes, expected);
  const auto parsed = parse_acm(expected);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(std::get<AcmResponse>(*parsed), response);
}

TEST(AcmMessage, StatusIsTheHighByte) {
  Mad bytes{};
  put(bytes, 0, {1, 0x2C, 1, 0x81, 3, 0, 0, 1});
  const auto parsed = parse_acm(bytes);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(std::get<AcmResponse>(*parsed).status, 3);
  EXPECT_FALSE(std::get<AcmResponse>(*parsed).group.has_value());
}

TEST(AcmMessage, AddressTypesByOffset) {
  const auto request_to = [](const AcmAddress& address) {
    AcmRequest request = sample_request();
    request.destination = address;
    Mad bytes;
    serialize(request, bytes);
    return bytes;
  };
  const Mad lid = request_to(AcmAddress::lid(Lid(0x1234)));
  EXPECT_EQ(lid[16], 5);
  EXPECT_EQ(lid[24], 0x12);
  EXPECT_EQ(lid[25], 0x34);
  const Mad ipv4 = request_to(AcmAddress::ipv4({192, 168, 1, 2}));
  EXPECT_EQ(ipv4[16], 2);
  EXPECT_EQ(ipv4[24], 192);
  EXPECT_EQ(ipv4[27], 2);
  const Mad name = request_to(*AcmAddress::name("node31"));
  EXPECT_EQ(name[16], 1);
  EXPECT_EQ(name[24], 'n');
  EXPECT_EQ(name[29], '1');
  EXPECT_EQ(name[30], 0);
  for (const Mad& bytes : {lid, ipv4, name}) {
    EXPECT_TRUE(parse_acm(bytes).has_value());
  }
  EXPECT_TRUE(parse_acm(request_to(*AcmAddress::name(std::string(64, 'x')))).has_value());
  EXPECT_FALSE(AcmAddress::name(std::string(65, 'x')).has_value());
  EXPECT_FALSE(AcmAddress::name("").has_value());
}

/// Is the sample request with one byte changed refused?
bool is_refused(std::size_t at, std::uint8_t value) {
  Mad bytes = sample_request_bytes();
  bytes[at] = value;
  const auto parsed = parse_acm(bytes);
  return !parsed.has_value() && parsed.error().is(Errc::Malformed);
}

TEST(AcmMessage, StrictHeader) {
  EXPECT_TRUE(is_refused(0, 2)) << "base version";
  EXPECT_TRUE(is_refused(1, 3)) << "class";
  EXPECT_TRUE(is_refused(2, 2)) << "class version";
  EXPECT_TRUE(is_refused(3, 2)) << "method";
  EXPECT_TRUE(is_refused(7, 2)) << "control";
  EXPECT_TRUE(is_refused(6, 0x80)) << "control";
}

TEST(AcmMessage, StrictAddresses) {
  EXPECT_TRUE(is_refused(16, 0)) << "destination type";
  EXPECT_TRUE(is_refused(16, 6)) << "destination type";
  EXPECT_TRUE(is_refused(18, 0)) << "source type";
  EXPECT_TRUE(is_refused(40, 1)) << "padding behind a GID";
  EXPECT_TRUE(is_refused(87, 1)) << "padding at its end";
  EXPECT_TRUE(is_refused(104, 1)) << "padding of the source";
  EXPECT_TRUE(is_refused(16, 2)) << "an IPv4 address of 16 bytes";
  Mad name = sample_request_bytes();
  std::fill(name.begin() + 24, name.begin() + 88, std::uint8_t{0});
  name[16] = 1;
  EXPECT_FALSE(parse_acm(name).has_value()) << "an empty name";
  put(name, 24, {'a', 0, 'b'});
  EXPECT_FALSE(parse_acm(name).has_value()) << "bytes behind a name's end";
}

TEST(AcmMessage, AtMostSixGroups) {
  for (unsigned count = 0; count < 256; ++count) {
    Mad bytes = sample_request_bytes();
    bytes[20] = static_cast<std::uint8_t>(count);
    for (std::size_t i = 0; i < 6; ++i) {
      bytes[152 + 16 * i] = 0xFF;
    }
    EXPECT_EQ(parse_acm(bytes).has_value(), count >= 1 && count <= 6) << count;
  }
  EXPECT_TRUE(is_refused(152, 0xFE)) << "a unicast group";
}

TEST(AcmMessage, LengthsAreUsedBeforeAnythingIsRead) {
  std::vector<std::uint8_t> bytes(300, 0);
  const Mad whole = sample_request_bytes();
  std::copy(whole.begin(), whole.end(), bytes.begin());
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    // An exact copy, so that a read behind its end is seen by AddressSanitizer.
    const std::vector<std::uint8_t> cut(bytes.begin(),
                                        bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(parse_acm(cut).has_value(), size == 256) << size;
  }
}

RC_GTEST_PROP(AcmProperty, WhatParsesComesBackTheSame, ()) {
  Mad bytes = sample_request_bytes();
  // A few random bytes anywhere: most are refused, some are other good messages.
  const auto changes = *rc::gen::inRange(0, 4);
  for (int i = 0; i < changes; ++i) {
    bytes[*rc::gen::inRange<std::size_t>(0, 256)] = *rc::gen::arbitrary<std::uint8_t>();
  }
  const auto parsed = parse_acm(bytes);
  if (!parsed.has_value()) {
    return;
  }
  Mad again;
  std::visit([&](const auto& message) { serialize(message, again); }, *parsed);
  const auto twice = parse_acm(again);
  RC_ASSERT(twice.has_value());
  RC_ASSERT(*twice == *parsed);
}

}  // namespace
}  // namespace wireup::mad
