// SPDX-License-Identifier: BSD-3-Clause
#include "mad/header.hpp"

#include <gtest/gtest.h>

namespace wireup::mad {
namespace {

/// Written out by offset from IBTA vol 1, table 109.
Mad header_vector() {
  Mad mad{};
  mad[0] = 0x01;  // base version
  mad[1] = 0x07;  // class
  mad[2] = 0x02;  // class version
  mad[3] = 0x03;  // method
  mad[4] = 0x12;  // status
  mad[5] = 0x34;
  mad[6] = 0x56;  // class specific
  mad[7] = 0x78;
  mad[8] = 0x01;  // TID
  mad[15] = 0xEF;
  mad[16] = 0x00;  // attribute id
  mad[17] = 0x10;
  mad[20] = 0xAA;  // attribute modifier
  mad[23] = 0xBB;
  return mad;
}

Header header_values() {
  Header header;
  header.mgmt_class = 7;
  header.class_version = 2;
  header.method = 3;
  header.status = 0x1234;
  header.class_specific = 0x5678;
  header.tid = Tid(0x01000000000000EFULL);
  header.attribute_id = 0x0010;
  header.attribute_modifier = 0xAA0000BB;
  return header;
}

TEST(Header, ReadsTheVector) {
  const auto header = parse_header(header_vector());
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(*header, header_values());
}

TEST(Header, WritesTheVectorAndZeroesReservedBits) {
  Mad mad{};
  mad[18] = 0xFF;
  serialize(header_values(), mad);
  EXPECT_EQ(mad, header_vector());
}

TEST(Header, IgnoresReservedBitsOnReceive) {
  Mad mad = header_vector();
  mad[18] = 0xFF;
  EXPECT_EQ(parse_header(mad).value(), header_values());
}

TEST(Header, RefusesShortBytesAndOtherVersions) {
  const Mad mad = header_vector();
  const auto cut = parse_header(std::span(mad).first(23));
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().what(), "MAD of 23 bytes, the header alone has 24");
  Mad other = mad;
  other[0] = 2;
  EXPECT_TRUE(parse_header(other).error().is(Errc::Malformed));
}

}  // namespace
}  // namespace wireup::mad
