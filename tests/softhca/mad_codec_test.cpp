// SPDX-License-Identifier: BSD-3-Clause
// Expected bytes are written out by offset from the tables of IBTA vol 1, chapters 13 to 15.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "softhca/mad/bytes.hpp"
#include "softhca/mad/mad.hpp"
#include "softhca/mad/smp.hpp"

namespace softhca {
namespace {

struct At {
  std::size_t offset;
  std::initializer_list<std::uint8_t> bytes;
};

template <std::size_t N>
std::array<std::uint8_t, N> image(std::initializer_list<At> parts) {
  std::array<std::uint8_t, N> bytes{};
  for (const At& part : parts) {
    std::copy(part.bytes.begin(), part.bytes.end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(part.offset));
  }
  return bytes;
}

TEST(SofthcaMad, HeaderByOffset) {
  const Mad expected = image<kMadSize>({
      {0, {0x01, 0x03, 0x02, 0x92}},
      {4, {0x02, 0x00, 0x12, 0x34}},
      {8, {0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}},
      {16, {0x00, 0x35}},
      {20, {0xA0, 0xB0, 0xC0, 0xD0}},
  });
  MadHeader header;
  header.mgmt_class = kClassSa;
  header.class_version = 2;
  header.method = kMethodGetTable | kMethodResponse;
  header.status = 0x0200;
  header.class_specific = 0x1234;
  header.tid = 0x1122334455667788;
  header.attr_id = kAttrPathRecord;
  header.attr_mod = 0xA0B0C0D0;
  Mad mad{};
  put_mad_header(mad, header);
  EXPECT_EQ(mad, expected);
  EXPECT_EQ(get_mad_header(expected), header);
  EXPECT_TRUE(header.is_response());
}

TEST(SofthcaMad, TrapRepressCountsAsAnAnswer) {
  MadHeader header;
  header.method = kMethodTrapRepress;
  EXPECT_TRUE(header.is_response());
  header.method = kMethodTrap;
  EXPECT_FALSE(header.is_response());
}

TEST(SofthcaMad, DirectedGetByOffset) {
  const Mad expected = image<kMadSize>({
      {0, {0x01, 0x81, 0x01, 0x01}},
      {6, {0x00, 0x03}},  // hop pointer 0, hop count 3
      {8, {0, 0, 0, 0, 0, 0, 0x01, 0x02}},
      {16, {0x00, 0x1B}},
      {20, {0x20, 0x00, 0x00, 0x05}},
      {32, {0xFF, 0xFF, 0xFF, 0xFF}},  // DrSLID, DrDLID
      {129, {0x01, 0x07, 0x24}},       // initial path from hop 1 on
  });
  EXPECT_EQ(make_directed_get({1, 7, 36}, kAttrMulticastForwarding, 2U << 28 | 5, 0x0102),
            expected);
}

TEST(SofthcaMad, NodeInfoByOffset) {
  const SmpData data = image<kSmpDataSize>({
      {0, {1, 1, 2, 36}},
      {4, {0, 0, 0, 0, 0, 0, 0, 0xA1}},
      {12, {0, 0, 0, 0, 0, 0, 0, 0xA2}},
      {20, {0, 0, 0, 0, 0, 0, 0, 0xA3}},
      {28, {0x00, 0x80, 0x10, 0x03}},
      {32, {0, 0, 0, 0xA0}},
      {36, {7, 0x00, 0x02, 0xC9}},
  });
  const NodeInfo expected = {2, 36, 0xA1, 0xA2, 0xA3, 128, 0x1003, 0xA0, 7, 0x0002C9};
  EXPECT_EQ(get_node_info(data), expected);
}

TEST(SofthcaMad, PortInfoByOffset) {
  const SmpData data = image<kSmpDataSize>({
      {0, {1, 2, 3, 4, 5, 6, 7, 8}},
      {8, {0xFE, 0x80, 0, 0, 0, 0, 0, 9}},
      {16, {0x12, 0x34, 0x56, 0x78}},
      {20, {0x02, 0x51, 0x48, 0x68}},
      {28, {2, 3, 3, 2}},
      {32, {0x14, 0x52, 0x42, 0x11}},           // state 4; phys 5; LMC 2; speed active 1
      {36, {0x5B, 0x40}},                       // neighbor MTU 5, SM SL 11; VLCap 4
      {41, {0x65}},                             // InitTypeReply 6, MTUCap 5
      {46, {0x00, 0x0A, 0x00, 0x0B, 8, 0x92}},  // violations; GUIDCap; reregister, timeout 18
      {60, {0x00, 0x30, 0x21, 0x01}},           // CapabilityMask2; extended speed active 2
  });
  PortInfo expected;
  expected.m_key = 0x0102030405060708;
  expected.gid_prefix = 0xFE80000000000009;
  expected.lid = 0x1234;
  expected.sm_lid = 0x5678;
  expected.cap_mask = 0x02514868;
  expected.local_port = 2;
  expected.width_active = 2;
  expected.state = 4;
  expected.phys_state = 5;
  expected.lmc = 2;
  expected.speed_active = 1;
  expected.speed_ext_active = 2;
  expected.neighbor_mtu = 5;
  expected.sm_sl = 11;
  expected.vl_cap = 4;
  expected.init_type_reply = 6;
  expected.mtu_cap = 5;
  expected.pkey_violations = 10;
  expected.qkey_violations = 11;
  expected.guid_cap = 8;
  expected.client_reregister = 1;
  expected.subnet_timeout = 18;
  expected.cap_mask2 = 0x0030;
  EXPECT_EQ(get_port_info(data), expected);
}

TEST(SofthcaMad, SwitchInfoByOffset) {
  const SmpData data = image<kSmpDataSize>({
      {0, {0xC0, 0x00}},
      {4, {0x04, 0x00, 0x00, 0x66}},
      {11, {0x94}},
      {14, {0x00, 0x20}},
      {18, {0xC0, 0x07}},
  });
  const SwitchInfo expected = {0xC000, 0x0400, 0x0066, true, 32, 0xC007};
  EXPECT_EQ(get_switch_info(data), expected);
}

TEST(SofthcaMad, MulticastBlocksFillPortsByPosition) {
  std::vector<PortMask> mft;
  const SmpData low = image<kSmpDataSize>({{2, {0x00, 0x82}}});       // MLID 1: ports 1 and 7
  const SmpData high = image<kSmpDataSize>({{2, {0x80, 0x01}}});      // ports 32 and 47
  const SmpData highest = image<kSmpDataSize>({{62, {0x40, 0x00}}});  // MLID 31: port 78
  put_mft_block(mft, 0, 0, low);
  put_mft_block(mft, 0, 2, high);
  put_mft_block(mft, 0, 4, highest);
  ASSERT_EQ(mft.size(), 32U);
  EXPECT_EQ(mft[1], (PortMask{std::uint64_t{1} << 1 | std::uint64_t{1} << 7 |
                              std::uint64_t{1} << 32 | std::uint64_t{1} << 47}));
  EXPECT_EQ(mft[31], (PortMask{0, std::uint64_t{1} << 14}));
  // A later read of a block replaces what it covers and nothing else.
  put_mft_block(mft, 0, 0, SmpData{});
  EXPECT_EQ(mft[1], (PortMask{std::uint64_t{1} << 32 | std::uint64_t{1} << 47}));
  // Beyond every table: nothing is written.
  put_mft_block(mft, 32, 0, low);
  put_mft_block(mft, 0, 16, low);
  EXPECT_EQ(mft.size(), 32U);
}

Mad table_answer() {
  return image<kMadSize>({{0, {0x01, 0x03, 0x02, 0x92}}, {26, {0x01}}, {44, {0x00, 0x08}}});
}

TEST(SofthcaMad, ATableInOneSegmentGetsAWholeRmppHeader) {
  Mad mad = table_answer();
  EXPECT_EQ(complete_sa_answer(mad, 56 + 64), 120U);
  EXPECT_EQ(mad[24], 1) << "RMPP version";
  EXPECT_EQ(mad[25], 1) << "DATA";
  EXPECT_EQ(mad[26], 0x07) << "active, first, last";
  EXPECT_EQ(get32(mad, 28), 1U) << "segment number";
  EXPECT_EQ(get32(mad, 32), 84U) << "one record of 64 bytes and 20 of the SA header";
}

TEST(SofthcaMad, ACutTableIsNotCalledWhole) {
  Mad mad = table_answer();
  EXPECT_EQ(complete_sa_answer(mad, 256), 256U);
  EXPECT_EQ(mad[26], 0x03) << "active and first, not last";
  mad = table_answer();
  EXPECT_EQ(complete_sa_answer(mad, 0xFFFFFFFFFFFFFFFF), 256U) << "a length beyond the MAD";
}

TEST(SofthcaMad, OtherAnswersAreLeftAlone) {
  Mad mad = image<kMadSize>({{0, {0x01, 0x03, 0x02, 0x81}}});
  const Mad before = mad;
  EXPECT_EQ(complete_sa_answer(mad, 120), kMadSize) << "not RMPP";
  EXPECT_EQ(mad, before);
  mad = image<kMadSize>({{24, {1, 1, 0x07, 0}}, {28, {0, 0, 0, 1}}, {32, {0, 0, 0, 84}}});
  const Mad whole = mad;
  EXPECT_EQ(complete_sa_answer(mad, 120), kMadSize) << "complete already";
  EXPECT_EQ(mad, whole);
  mad = table_answer();
  EXPECT_EQ(complete_sa_answer(mad, 10), kMadSize) << "shorter than the header";
}

}  // namespace
}  // namespace softhca
