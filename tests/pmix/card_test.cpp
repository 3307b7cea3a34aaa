// SPDX-License-Identifier: BSD-3-Clause
#include "pmix/engine/card.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/rng.hpp"
#include "support/seed.hpp"

namespace wireup::pmix {
namespace {

/// A card of one port, written out by hand: offset, field.
// clang-format off
constexpr std::array<std::uint8_t, 84> kOnePort = {
    0x57, 0x55, 0x50, 0x43,                          //  0 magic "WUPC"
    0x01,                                            //  4 version
    0x01,                                            //  5 ports
    0x00, 0x54,                                      //  6 length 84
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,  //  8 incarnation
    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,  // 16 job
    0x00, 0x00, 0x01, 0x2C,                          // 24 rank 300
    0x4A, 0x4B, 0x4C, 0x4D,                          // 28 Q_Key
    0x00, 0x02, 0xC9, 0x03, 0x00, 0x00, 0x10, 0x00,  // 32 node GUID
    0x00, 0x02, 0xC9, 0x03, 0x00, 0x00, 0x10, 0x01,  // 40 port GUID
    0xFE, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // 48 GID, prefix
    0x00, 0x02, 0xC9, 0x03, 0x00, 0x00, 0x10, 0x01,  // 56 GID, interface id
    0x00, 0x2A,                                      // 64 LID 42
    0xFF, 0xFF,                                      // 66 P_Key
    0x00, 0xAB, 0xCD, 0xEF,                          // 68 zero, CM QPN
    0x02,                                            // 72 port number
    0x03,                                            // 73 LMC
    0x05,                                            // 74 MTU code 4096
    0x07,                                            // 75 rate code 40 Gb/s
    0x09,                                            // 76 SL
    0x00, 0x00, 0x00,                                // 77 reserved
    0x93, 0x96, 0x34, 0xCD,                          // 80 CRC-32 of bytes 0 to 79, by zlib
};
// clang-format on

constexpr std::size_t kCrcAt = 80;

Card one_port() {
  Card card;
  card.incarnation = 0x0102030405060708;
  card.owner = {0x1112131415161718, 300};
  card.cm_qkey = QKey(0x4A4B4C4D);
  CardPort port;
  port.node_guid = Guid(0x0002C90300001000);
  port.port_guid = Guid(0x0002C90300001001);
  port.gid = Gid::make(0xFE80000000000000, port.port_guid);
  port.lid = Lid(42);
  port.pkey = PKey(0xFFFF);
  port.cm_qpn = Qpn(0xABCDEF);
  port.number = 2;
  port.lmc = 3;
  port.mtu = 5;
  port.rate = 7;
  port.sl = Sl(9);
  card.ports = {port};
  return card;
}

/// CRC-32 as a table-free loop over bits from the other end: not the codec's.
std::uint32_t reference_crc(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  const auto reflect8 = [](std::uint32_t v) {
    std::uint32_t r = 0;
    for (int i = 0; i < 8; ++i) {
      r |= ((v >> i) & 1U) << (7 - i);
    }
    return r;
  };
  for (const std::uint8_t byte : bytes) {
    crc ^= reflect8(byte) << 24U;
    for (int i = 0; i < 8; ++i) {
      crc = (crc & 0x80000000U) != 0 ? (crc << 1U) ^ 0x04C11DB7U : crc << 1U;
    }
  }
  std::uint32_t reflected = 0;
  for (int i = 0; i < 32; ++i) {
    reflected |= ((crc >> i) & 1U) << (31 - i);
  }
  return ~reflected;
}

using Bytes = std::vector<std::uint8_t>;

Bytes one_port_bytes() {
  return {kOnePort.begin(), kOnePort.end()};
}

/// Changes bytes and makes the checksum right again, so that the other checks are reached.
Bytes with(std::size_t offset, std::initializer_list<std::uint8_t> values) {
  Bytes bytes = one_port_bytes();
  std::copy(values.begin(), values.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  const std::uint32_t crc = reference_crc(std::span(bytes).first(kCrcAt));
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[kCrcAt + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
  }
  return bytes;
}

TEST(Card, SerializesToTheBytesOfTheTable) {
  const auto bytes = serialize(one_port());
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, one_port_bytes());
}

TEST(Card, ParsesTheBytesOfTheTable) {
  const auto card = parse_card(kOnePort);
  ASSERT_TRUE(card) << card.error().what();
  EXPECT_EQ(*card, one_port());
}

TEST(Card, KeepsUpToFourPortsInOrderAndStaysWithin256Bytes) {
  Card card = one_port();
  for (std::uint16_t i = 1; i < 4; ++i) {
    CardPort port = card.ports[0];
    port.lid = Lid(i);
    port.sl.reset();
    card.ports.push_back(port);
  }
  const auto bytes = serialize(card);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->size(), 32U + 4 * 48 + 4);
  EXPECT_LE(bytes->size(), 256U);
  EXPECT_EQ((*bytes)[32 + 48 + 44], 0xFF);  // no SL
  EXPECT_EQ(parse_card(*bytes), card);
  card.ports.push_back(card.ports[0]);
  EXPECT_TRUE(serialize(card).error().is(Errc::InvalidArgument));
  card.ports.clear();
  EXPECT_TRUE(serialize(card).error().is(Errc::InvalidArgument));
}

TEST(Card, RefusesEveryLengthButItsOwn) {
  Bytes bytes = one_port_bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(parse_card(std::span(bytes).first(size)).error().is(Errc::Malformed)) << size;
  }
  bytes.resize(300, 0);
  for (std::size_t size = kOnePort.size() + 1; size <= bytes.size(); ++size) {
    EXPECT_TRUE(parse_card(std::span(bytes).first(size)).error().is(Errc::Malformed)) << size;
  }
}

TEST(Card, RefusesEveryFlippedBit) {
  for (std::size_t bit = 0; bit < kOnePort.size() * 8; ++bit) {
    Bytes bytes = one_port_bytes();
    bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ (1U << (bit % 8)));
    EXPECT_FALSE(parse_card(bytes)) << "bit " << bit;
  }
}

TEST(Card, NamesAnotherVersion) {
  const auto card = parse_card(with(4, {2}));
  ASSERT_FALSE(card);
  EXPECT_TRUE(card.error().is(Errc::Unsupported));
  EXPECT_NE(card.error().what().find("version 2"), std::string_view::npos);
}

struct Broken {
  const char* name;
  std::size_t offset;
  std::initializer_list<std::uint8_t> values;
};

TEST(Card, RefusesValuesOutsideTheirRangeThoughTheChecksumIsRight) {
  const Broken cases[] = {
      {"magic", 0, {0x57, 0x55, 0x50, 0x44}},
      {"no port", 5, {0}},
      {"two ports in one port's bytes", 5, {2}},
      {"most ports", 5, {255}},
      {"length field", 6, {0x00, 0x55}},
      {"incarnation 0", 8, {0, 0, 0, 0, 0, 0, 0, 0}},
      {"node GUID 0", 32, {0, 0, 0, 0, 0, 0, 0, 0}},
      {"port GUID 0", 40, {0, 0, 0, 0, 0, 0, 0, 0}},
      {"GID 0", 48, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"multicast GID", 48, {0xFF}},
      {"multicast LID", 64, {0xC0, 0x00}},
      {"P_Key of no partition", 66, {0x80, 0x00}},
      {"byte before the QPN", 68, {1}},
      {"QPN 0", 68, {0, 0, 0, 0}},
      {"port number 0", 72, {0}},
      {"LMC 8", 73, {8}},
      {"MTU 0", 74, {0}},
      {"MTU 6", 74, {6}},
      {"rate 0", 75, {0}},
      {"rate 64", 75, {64}},
      {"SL 16", 76, {16}},
      {"SL 254", 76, {0xFE}},
      {"reserved byte", 77, {1}},
      {"reserved byte", 79, {1}},
  };
  for (const Broken& broken : cases) {
    const auto card = parse_card(with(broken.offset, broken.values));
    ASSERT_FALSE(card) << broken.name;
    EXPECT_TRUE(card.error().is(Errc::Malformed)) << broken.name;
  }
  EXPECT_TRUE(parse_card(with(64, {0, 0}))) << "LID 0 is a port without LIDs";
  EXPECT_TRUE(parse_card(with(76, {0xFF}))) << "no SL";
}

TEST(Card, NeverWritesWhatItWouldRefuse) {
  const auto refused = [](auto&& change) {
    Card card = one_port();
    change(card);
    const auto bytes = serialize(card);
    return !bytes && bytes.error().is(Errc::InvalidArgument);
  };
  EXPECT_TRUE(refused([](Card& c) { c.incarnation = 0; }));
  EXPECT_TRUE(refused([](Card& c) { c.ports[0].node_guid = Guid(); }));
  EXPECT_TRUE(refused([](Card& c) { c.ports[0].gid = Gid(); }));
  EXPECT_TRUE(refused([](Card& c) { c.ports[0].lid = Lid(0xC000); }));
  EXPECT_TRUE(refused([](Card& c) { c.ports[0].pkey = PKey(0x8000); }));
  EXPECT_TRUE(refused([](Card& c) { c.ports[0].cm_qpn = Qpn(0); }));
  EXPECT_FALSE(refused([](Card& c) { c.ports[0].cm_qpn = Qpn(1); })) << "QP1 carries CM";
  EXPECT_TRUE(refused([](Card& c) { c.ports[0].number = 0; }));
  EXPECT_TRUE(refused([](Card& c) { c.ports[0].lmc = 8; }));
  EXPECT_TRUE(refused([](Card& c) { c.ports[0].mtu = 6; }));
  EXPECT_TRUE(refused([](Card& c) { c.ports[0].rate = 0; }));
}

TEST(Card, SurvivesRandomBytes) {
  Rng rng(test::seed());
  int parsed = 0;
  const std::uint64_t rounds = test::rounds(200000);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    // Half of them mutations of a good card with a good checksum, which get past the first checks.
    Bytes bytes;
    if (round % 2 == 0) {
      bytes.resize(rng.below(300));
      for (auto& byte : bytes) {
        byte = static_cast<std::uint8_t>(rng.next());
      }
    } else {
      bytes = with(rng.below(kCrcAt - 1), {static_cast<std::uint8_t>(rng.next())});
    }
    const auto card = parse_card(bytes);
    if (card) {
      ++parsed;
      EXPECT_EQ(serialize(*card), bytes);  // what is accepted is written back the same
    }
  }
  EXPECT_GT(parsed, 1000);
}

TEST(Card, RoundTripsRandomValues) {
  Rng rng(test::seed());
  const std::uint64_t rounds = test::rounds(2000);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Card card;
    card.incarnation = rng.next() | 1U;
    card.owner = {rng.next(), static_cast<std::uint32_t>(rng.next())};
    card.cm_qkey = QKey(static_cast<std::uint32_t>(rng.next()));
    for (std::uint64_t i = rng.below(4) + 1; i > 0; --i) {
      CardPort port;
      port.node_guid = Guid(rng.next() | 1U);
      port.port_guid = Guid(rng.next() | 1U);
      port.gid = Gid::make(rng.next() >> 8U, port.port_guid);
      port.lid = Lid(static_cast<std::uint16_t>(rng.below(0xC000)));
      port.pkey = PKey(static_cast<std::uint16_t>(rng.below(0x10000) | 1U));
      port.cm_qpn = Qpn(static_cast<std::uint32_t>(2 + rng.below(0xFFFFFE)));
      port.number = static_cast<std::uint8_t>(1 + rng.below(255));
      port.lmc = static_cast<std::uint8_t>(rng.below(8));
      port.mtu = static_cast<std::uint8_t>(1 + rng.below(5));
      port.rate = static_cast<std::uint8_t>(1 + rng.below(63));
      if (rng.below(2) == 0) {
        port.sl = Sl(static_cast<std::uint8_t>(rng.below(16)));
      }
      card.ports.push_back(port);
    }
    const auto bytes = serialize(card);
    ASSERT_TRUE(bytes) << bytes.error().what();
    EXPECT_EQ(parse_card(*bytes), card);
  }
}

}  // namespace
}  // namespace wireup::pmix
