// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "conn/conn_host.hpp"

namespace wireup::conn {
namespace {

// The bytes of identity.hpp's tables, written out.
const std::vector<std::uint8_t> kRequestBytes{
    0x57, 0x55, 0x50, 0x31,                          // 0: magic
    0x01, 0x00,                                      // 4: version, reserved
    0x00, 0x38,                                      // 6: size 56
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,  // 8: job
    0x00, 0x00, 0x00, 0x2A,                          // 16: rank 42
    0x00, 0x00, 0x01, 0x07,                          // 20: epoch 263
    0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8,  // 24: incarnation
    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,  // 32: receiver's job
    0x00, 0x00, 0x00, 0x07,                          // 40: receiver's rank
    0x00, 0x00, 0x00, 0x00,                          // 44: reserved
    0xB1, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8,  // 48: receiver's incarnation
};

const RequestData kRequest{{{0x0102030405060708, 42}, 263, 0xA1A2A3A4A5A6A7A8},
                           {0x1112131415161718, 7},
                           0xB1B2B3B4B5B6B7B8};

TEST(Identity, RequestHasTheBytesOfTheTable) {
  const auto bytes = serialize(kRequest);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), kRequestBytes.begin(), kRequestBytes.end()));
  const auto parsed = parse_request(kRequestBytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, kRequest);
}

TEST(Identity, ReplyAndRefusalCarryOneMoreByte) {
  std::vector<std::uint8_t> bytes(kRequestBytes.begin(), kRequestBytes.begin() + 32);
  bytes[7] = 36;
  bytes.insert(bytes.end(), {4, 0, 0, 0});
  const auto reply = parse_reply(bytes);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->mtu, 4);
  EXPECT_EQ(reply->identity, kRequest.identity);
  const auto out = serialize(*reply);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), bytes.begin(), bytes.end()));
  const auto refusal = parse_refusal(bytes);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->refusal, static_cast<std::uint8_t>(Refusal::WrongReceiver));
}

TEST(Identity, PaddingAfterTheStatedSizeIsAllowedAndShortageIsNot) {
  std::vector<std::uint8_t> padded = kRequestBytes;
  padded.resize(92);
  EXPECT_TRUE(parse_request(padded));
  for (std::size_t size = 0; size < kRequestBytes.size(); ++size) {
    EXPECT_FALSE(parse_request(std::span(kRequestBytes).first(size)));
  }
}

TEST(Identity, WrongHeadsAreTold) {
  auto bytes = kRequestBytes;
  bytes[0] ^= 1;
  EXPECT_TRUE(parse_request(bytes).error().is(Errc::Malformed));
  bytes = kRequestBytes;
  bytes[4] = 2;
  EXPECT_TRUE(parse_request(bytes).error().is(Errc::Unsupported));
  bytes = kRequestBytes;
  bytes[7] = 57;  // more than there is
  EXPECT_TRUE(parse_request(bytes).error().is(Errc::Malformed));
  bytes[7] = 55;  // less than a request has
  EXPECT_TRUE(parse_request(bytes).error().is(Errc::Malformed));
}

TEST(Identity, EveryRefusalHasASentence) {
  for (std::uint8_t number = 1; number <= 11; ++number) {
    EXPECT_EQ(refusal_sentence(number).find("does not know"), std::string::npos);
  }
  EXPECT_NE(refusal_sentence(0).find("does not know"), std::string::npos);
  EXPECT_NE(refusal_sentence(12).find("does not know"), std::string::npos);
}

/// Two ranks of which the second differs from what the first believes.
struct Mismatch {
  Network network{1};
  Rank asking;
  Rank asked;

  explicit Mismatch(const Config& truth) : asking(network, 0, 2), asked(network, truth, 7) {}

  Failed run() {
    EXPECT_TRUE(asking.connect(1, std::chrono::seconds(5)));
    EXPECT_TRUE(network.run());
    EXPECT_TRUE(asked.events.empty());
    EXPECT_EQ(asked.engine().counters().refused, 1U);
    EXPECT_EQ(asked.sent[mad::CmKind::Rej], 1U);
    EXPECT_EQ(asking.events.size(), 1U);
    expect_settled(asking);
    expect_settled(asked);
    const auto failed = asking.all<Failed>();
    return failed.empty() ? Failed{} : failed[0];
  }
};

TEST(Identity, ARestartedPeerIsToldApart) {
  Config config = Rank::usual_config(1, 2);
  config.incarnation ^= 0x1000;
  const Failed failed = Mismatch(config).run();
  EXPECT_EQ(failed.step, Step::Request);
  EXPECT_TRUE(failed.error.is(Errc::Stale)) << failed.error.what();
}

TEST(Identity, AnotherJobIsToldApart) {
  Config config = Rank::usual_config(1, 2);
  config.self.job ^= 1;
  const Failed failed = Mismatch(config).run();
  EXPECT_TRUE(failed.error.is(Errc::Rejected));
  EXPECT_NE(std::string(failed.error.what()).find("another job"), std::string::npos);
}

TEST(Identity, ARecycledQueuePairOfAnotherRankIsToldApart) {
  Network network(1);
  Rank asking(network, 0, 3);
  Rank other(network, 1, 3);
  Rank target(network, 2, 3);
  // The card of rank 1 names what is rank 2's endpoint now.
  asking.answer_card = [](std::uint32_t peer) {
    return Result<PeerCard>(PeerCard{Place::incarnation(peer), Place::gid(2), Place::lid(2),
                                     PKey(0xFFFF), Place::cm_qpn(2)});
  };
  ASSERT_TRUE(asking.connect(1, std::chrono::seconds(5)));
  ASSERT_TRUE(network.run());
  const auto failed = asking.all<Failed>();
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_TRUE(failed[0].error.is(Errc::Stale));
  EXPECT_TRUE(target.events.empty());
}

TEST(Identity, AnotherPartitionIsRefused) {
  Config config = Rank::usual_config(1, 2);
  config.pkey = PKey(0x8123);
  const Failed failed = Mismatch(config).run();
  EXPECT_TRUE(failed.error.is(Errc::Rejected));
}

TEST(Identity, AReplyOfAnotherIncarnationIsNotTaken) {
  // The peer restarts between REQ and REP and, against all odds, answers the REQ.
  World world(2);
  world.network.set_filter([&](auto from, auto, const Datagram& d) {
    if (from == 1 && d.kind == mad::CmKind::Rep) {
      Datagram changed = d;
      changed.bytes[24 + 36 + 31] ^= 1;  // last byte of the incarnation in REP's private data
      world.network.at(world.network.now(),
                       [&world, changed] { world[0].deliver(changed, world.network.now()); });
      return true;
    }
    return false;
  });
  ASSERT_TRUE(world[0].connect(1, std::chrono::seconds(5)));
  ASSERT_TRUE(world.network.run());
  const auto failed = world[0].all<Failed>();
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].step, Step::Reply);
  EXPECT_TRUE(failed[0].error.is(Errc::Stale));
  EXPECT_EQ(world[1].qp(0), nullptr);
  expect_settled(world[0]);
  expect_settled(world[1]);
}

TEST(Identity, TheCardMustAgreeWithTheRequestThatCameBefore) {
  World world(2);
  world[0].answer_card = [](std::uint32_t peer) {
    return Result<PeerCard>(PeerCard{Place::incarnation(peer) ^ 0x77, Place::gid(peer),
                                     Place::lid(peer), PKey(0xFFFF), Place::cm_qpn(peer)});
  };
  // Rank 1 connects and leaves again; then rank 0 wants a connection and gets an old card.
  ASSERT_TRUE(world[1].connect(0));
  ASSERT_TRUE(world.network.run());
  ASSERT_TRUE(world[1].close(0));
  ASSERT_TRUE(world.network.run());
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  const auto failed = world[0].all<Failed>();
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].step, Step::Card);
  EXPECT_TRUE(failed[0].error.is(Errc::Stale));
}

}  // namespace
}  // namespace wireup::conn
