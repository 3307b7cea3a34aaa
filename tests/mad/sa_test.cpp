// SPDX-License-Identifier: BSD-3-Clause
#include "mad/sa.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace wireup::mad {
namespace {

/// Bytes at an offset, as the tables of IBTA vol 1 (15.2.1.1, 15.2.5.16, 15.2.5.17) place them.
template <std::size_t N>
void put(std::array<std::uint8_t, N>& to, std::size_t at,
         std::initializer_list<std::uint8_t> bytes) {
  std::copy(bytes.begin(), bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

Gid gid_of(std::uint8_t last) {
  Gid::Bytes bytes{0xFE, 0x80};
  bytes[15] = last;
  return Gid(bytes);
}

PathRecord sample_path() {
  PathRecord record;
  record.service_id = ServiceId(0x0102030405060708);
  record.dgid = gid_of(0xD1);
  record.sgid = gid_of(0x51);
  record.dlid = Lid(0x1234);
  record.slid = Lid(0x0056);
  record.raw_traffic = true;
  record.flow_label = FlowLabel(0xABCDE);
  record.hop_limit = 0x40;
  record.traffic_class = 0x77;
  record.reversible = true;
  record.numb_path = 0x7F;
  record.pkey = PKey(0x8001);
  record.qos_class = 0xABC;
  record.sl = Sl(0xD);
  record.mtu_selector = Selector::Exactly;
  record.mtu = 5;
  record.rate_selector = Selector::LessThan;
  record.rate = 0x17;
  record.packet_lifetime_selector = Selector::Largest;
  record.packet_lifetime = 0x12;
  record.preference = 0x99;
  return record;
}

std::array<std::uint8_t, 64> sample_path_bytes() {
  std::array<std::uint8_t, 64> bytes{};
  put(bytes, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  put(bytes, 8, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xD1});
  put(bytes, 24, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x51});
  put(bytes, 40, {0x12, 0x34});
  put(bytes, 42, {0x00, 0x56});
  put(bytes, 44, {0x8A, 0xBC, 0xDE, 0x40});  // raw 1, reserved 3, flow 20, hop 8
  put(bytes, 48, {0x77});
  put(bytes, 49, {0xFF});  // reversible 1, paths 7
  put(bytes, 50, {0x80, 0x01});
  put(bytes, 52, {0xAB, 0xCD});  // QoS class 12, SL 4
  put(bytes, 54, {0x85});        // exactly, 4096
  put(bytes, 55, {0x57});        // less than, 800 Gb/s
  put(bytes, 56, {0xD2});        // largest, 2^18
  put(bytes, 57, {0x99});
  return bytes;
}

TEST(PathRecord, BytesByOffset) {
  std::array<std::uint8_t, 64> bytes{};
  bytes.fill(0xEE);
  serialize(sample_path(), bytes);
  EXPECT_EQ(bytes, sample_path_bytes());
  const auto parsed = parse_path_record(sample_path_bytes());
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, sample_path());
}

TEST(PathRecord, ReservedBitsAreIgnored) {
  auto bytes = sample_path_bytes();
  bytes[44] |= 0x70;
  std::fill(bytes.begin() + 58, bytes.end(), std::uint8_t{0xFF});
  const auto parsed = parse_path_record(bytes);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, sample_path());
}

TEST(PathRecord, OtherLengthsAreMalformed) {
  const std::array<std::uint8_t, 80> bytes{};
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const auto parsed = parse_path_record(std::span(bytes).first(size));
    EXPECT_EQ(parsed.has_value(), size == 64) << size;
    if (!parsed) {
      EXPECT_TRUE(parsed.error().is(Errc::Malformed));
    }
  }
}

TEST(PathRecord, ComponentMaskBits) {
  EXPECT_EQ(path_mask::kServiceId, 0x3U);
  EXPECT_EQ(path_mask::kDgid | path_mask::kSgid, 0xCU);
  EXPECT_EQ(path_mask::kTrafficClass, 0x400U);
  EXPECT_EQ(path_mask::kReversible | path_mask::kNumbPath | path_mask::kPKey, 0x3800U);
  EXPECT_EQ(path_mask::kPacketLifetime, 0x200000U);
}

McMemberRecord sample_member() {
  McMemberRecord record;
  record.mgid = Gid({0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0, 3, 4});
  record.port_gid = gid_of(0x77);
  record.qkey = QKey(0x80010000);
  record.mlid = Lid(0xC003);
  record.mtu_selector = Selector::Exactly;
  record.mtu = 4;
  record.traffic_class = 0x12;
  record.pkey = PKey(0x7FFF);
  record.rate_selector = Selector::Exactly;
  record.rate = 3;
  record.packet_lifetime_selector = Selector::Exactly;
  record.packet_lifetime = 0x12;
  record.sl = Sl(0xA);
  record.flow_label = FlowLabel(0xBCDEF);
  record.hop_limit = 0x3F;
  record.scope = 5;
  record.join_state = 1;
  record.proxy_join = true;
  return record;
}

std::array<std::uint8_t, 52> sample_member_bytes() {
  std::array<std::uint8_t, 52> bytes{};
  put(bytes, 0, {0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0x00, 0x03, 0x04});
  put(bytes, 16, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77});
  put(bytes, 32, {0x80, 0x01, 0x00, 0x00});
  put(bytes, 36, {0xC0, 0x03});
  put(bytes, 38, {0x84, 0x12});
  put(bytes, 40, {0x7F, 0xFF});
  put(bytes, 42, {0x83, 0x92});
  put(bytes, 44, {0xAB, 0xCD, 0xEF, 0x3F});
  put(bytes, 48, {0x51, 0x80});
  return bytes;
}

TEST(McMemberRecord, BytesByOffset) {
  std::array<std::uint8_t, 52> bytes{};
  bytes.fill(0xEE);
  serialize(sample_member(), bytes);
  EXPECT_EQ(bytes, sample_member_bytes());
  const auto parsed = parse_mc_member_record(sample_member_bytes());
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, sample_member());
}

TEST(McMemberRecord, OtherLengthsAreMalformed) {
  const std::array<std::uint8_t, 64> bytes{};
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    EXPECT_EQ(parse_mc_member_record(std::span(bytes).first(size)).has_value(), size == 52);
  }
}

Mad join_request_bytes() {
  Mad bytes{};
  put(bytes, 0, {1, 3, 2, 2});                          // base, SubnAdm, class version, Set
  put(bytes, 8, {0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44});  // TID
  put(bytes, 16, {0x00, 0x38});
  put(bytes, 48, {0, 0, 0, 0, 0, 0x01, 0xB3, 0xF7});  // the mask of an ACM join
  const auto member = sample_member_bytes();
  std::copy(member.begin(), member.end(), bytes.begin() + 56);
  return bytes;
}

TEST(SaMad, JoinRequestByOffset) {
  Mad bytes;
  serialize(make_sa_request(Method::Set, Tid(0x11223344), sample_member(), 0x1B3F7), bytes);
  EXPECT_EQ(bytes, join_request_bytes());
}

TEST(SaMad, PathRequestByOffset) {
  Mad expected{};
  put(expected, 0, {1, 3, 2, 1});
  put(expected, 8, {0xA1, 2, 3, 4, 5, 6, 7, 8});
  put(expected, 16, {0x00, 0x35});
  put(expected, 48, {0, 0, 0, 0, 0, 0, 0x38, 0x0C});  // DGID SGID reversible paths P_Key
  const auto path = sample_path_bytes();
  std::copy(path.begin(), path.end(), expected.begin() + 56);
  Mad bytes;
  serialize(make_sa_request(Method::Get, Tid(0xA102030405060708), sample_path(),
                            path_mask::kDgid | path_mask::kSgid | path_mask::kReversible |
                                path_mask::kNumbPath | path_mask::kPKey),
            bytes);
  EXPECT_EQ(bytes, expected);
}

TEST(SaMad, HeaderFieldsByOffset) {
  Mad bytes = join_request_bytes();
  put(bytes, 3, {0x81, 0x03, 0x00});                        // method, status 0x0300
  put(bytes, 24, {1, 2, 0xF9, 4, 0, 0, 0, 5, 0, 0, 0, 6});  // RMPP: 0xF9 = time 31, flags 1
  put(bytes, 36, {1, 2, 3, 4, 5, 6, 7, 8});                 // SM_Key
  put(bytes, 44, {0x00, 0x08});                             // attribute offset
  const auto sa = parse_sa_mad(bytes);
  ASSERT_TRUE(sa.has_value()) << sa.error().what();
  EXPECT_EQ(sa->header.method, 0x81);
  EXPECT_EQ(sa->header.status, 0x0300);
  EXPECT_EQ(sa->header.tid, Tid(0x11223344));
  EXPECT_EQ(sa->rmpp_version, 1);
  EXPECT_EQ(sa->rmpp_type, 2);
  EXPECT_EQ(sa->rmpp_response_time, 31);
  EXPECT_EQ(sa->rmpp_flags, 1);
  EXPECT_EQ(sa->rmpp_status, 4);
  EXPECT_EQ(sa->segment, 5U);
  EXPECT_EQ(sa->payload_length, 6U);
  EXPECT_EQ(sa->sm_key, 0x0102030405060708U);
  EXPECT_EQ(sa->attribute_offset, 8);
  EXPECT_EQ(sa->component_mask, 0x1B3F7U);
  const auto member = sa_mc_member_record(*sa);
  ASSERT_TRUE(member.has_value());
  EXPECT_EQ(*member, sample_member());
}

TEST(SaMad, StrangersAreMalformed) {
  const auto broken = [](std::size_t at, std::uint8_t value) {
    Mad bytes = join_request_bytes();
    bytes[at] = value;
    return !parse_sa_mad(bytes).has_value();
  };
  EXPECT_TRUE(broken(0, 2)) << "base version";
  EXPECT_TRUE(broken(1, 7)) << "class";
  EXPECT_TRUE(broken(2, 1)) << "class version";
  const Mad whole = join_request_bytes();
  EXPECT_FALSE(parse_sa_mad(std::span(whole).first(255)).has_value());
  EXPECT_FALSE(parse_sa_mad({}).has_value());
}

TEST(SaMad, StatusWordsHaveSentences) {
  EXPECT_STREQ(sa_status_text(0x0300), "the SA has no such record");
  EXPECT_STREQ(sa_status_text(0x0001), "the SA is busy");
  EXPECT_STREQ(sa_status_text(0x000C), "method and attribute do not go together");
  EXPECT_STREQ(sa_status_text(0x0000), "success");
}

RC_GTEST_PROP(SaProperty, AnyBytesParseAndComeBack, ()) {
  const auto bytes =
      *rc::gen::container<std::vector<std::uint8_t>>(64, rc::gen::arbitrary<std::uint8_t>());
  const auto parsed = parse_path_record(bytes);
  RC_ASSERT(parsed.has_value());
  std::array<std::uint8_t, 64> again{};
  serialize(*parsed, again);
  auto expected = bytes;
  expected[44] &= 0x8F;
  std::fill(expected.begin() + 58, expected.end(), std::uint8_t{0});
  RC_ASSERT(std::equal(again.begin(), again.end(), expected.begin()));
}

}  // namespace
}  // namespace wireup::mad
