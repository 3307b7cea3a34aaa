// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/mad/rmpp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "softhca/mad/bytes.hpp"

namespace {

using softhca::Instant;
using softhca::kMadSize;
using softhca::Mad;
using softhca::RmppReceiver;
using softhca::RmppSender;
using std::chrono::milliseconds;

constexpr std::size_t kSaHeader = 56;
constexpr std::size_t kPerSegment = 200;

/// A GetTable answer of the subnet administrator with `data` bytes, marked as a transfer.
std::vector<std::uint8_t> table(std::size_t data) {
  std::vector<std::uint8_t> message(kSaHeader + data);
  message[0] = 1;
  message[1] = 3;
  message[2] = 2;
  message[3] = 0x92;
  message[15] = 77;
  message[26] = 1;  // RMPP flags: Active
  for (std::size_t i = kSaHeader; i < message.size(); ++i) {
    message[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
  }
  return message;
}

std::vector<std::uint8_t> data_of(const std::vector<std::uint8_t>& message) {
  return {message.begin() + kSaHeader, message.end()};
}

TEST(Rmpp, SegmentsAsOnTheWire) {
  RmppSender sender(table(450), milliseconds(100), 0);
  std::vector<Mad> out;
  sender.poll(out, Instant{});
  ASSERT_EQ(out.size(), 1U) << "one until the other end says how many it takes";
  EXPECT_EQ(out[0][24], 1) << "version";
  EXPECT_EQ(out[0][25], 1) << "DATA";
  EXPECT_EQ(out[0][26] & 7, 3) << "Active, First";
  EXPECT_EQ(softhca::get32(out[0], 28), 1U);
  EXPECT_EQ(softhca::get32(out[0], 32), 450U + 3 * 20) << "all data, and 20 bytes of each header";
  Mad ack = out[0];
  ack[25] = 2;
  softhca::put32(ack, 28, 1);
  softhca::put32(ack, 32, 65);
  sender.handle(ack, Instant{});
  out.clear();
  sender.poll(out, Instant{});
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0][26] & 7, 1);
  EXPECT_EQ(softhca::get32(out[0], 32), 0U);
  EXPECT_EQ(out[1][26] & 7, 5) << "Active, Last";
  EXPECT_EQ(softhca::get32(out[1], 32), 50U + 20);
  EXPECT_EQ(out[1][15], 77) << "each has the header";
  EXPECT_EQ(out[1][kSaHeader + 50], 0) << "and nothing behind the end";
}

TEST(Rmpp, AnAcknowledgementTurnsTheDirectionRound) {
  RmppSender sender(table(10), milliseconds(100), 0);
  std::vector<Mad> out;
  sender.poll(out, Instant{});
  RmppReceiver receiver;
  const auto ack = receiver.handle(out.at(0));
  ASSERT_TRUE(ack);
  EXPECT_EQ((*ack)[3], 0x12) << "an answer's acknowledgement is no answer";
  EXPECT_EQ((*ack)[25], 2);
  EXPECT_EQ(softhca::get32(*ack, 28), 1U);
  EXPECT_EQ(softhca::get32(*ack, 32), 65U) << "64 more may come";
  EXPECT_TRUE(receiver.complete());
  EXPECT_EQ(data_of(receiver.take()), data_of(table(10)));
}

/// Both ends over a wire that loses, doubles and reorders; true when the message came over.
bool carry(const std::vector<std::uint8_t>& message, std::uint32_t seed, int loss_percent) {
  std::mt19937 random(seed);
  RmppSender sender(message, milliseconds(100), 20);
  RmppReceiver receiver;
  std::vector<std::uint8_t> got;
  Instant now{};
  std::deque<std::pair<bool, Mad>> wire;  // true: towards the receiver
  const auto put = [&](bool forward, const Mad& mad) {
    for (int copies = random() % 10 == 0 ? 2 : 1; copies > 0; --copies) {
      if (static_cast<int>(random() % 100) >= loss_percent) {
        const auto place = static_cast<long>(random() % 3);
        wire.insert(wire.end() - std::min<long>(place, static_cast<long>(wire.size())),
                    {forward, mad});
      }
    }
  };
  for (int step = 0; step < 200000 && sender.state() == RmppSender::State::Sending; ++step) {
    std::vector<Mad> out;
    sender.poll(out, now);
    for (const Mad& mad : out) {
      put(true, mad);
    }
    if (wire.empty()) {
      now = sender.deadline();
      sender.handle_timeout(now);
      continue;
    }
    const auto [forward, mad] = wire.front();
    wire.pop_front();
    if (!forward) {
      sender.handle(mad, now);
      continue;
    }
    if (const auto ack = receiver.handle(mad)) {
      put(false, *ack);
    }
    if (receiver.complete() && got.empty()) {
      got = receiver.take();
    }
  }
  return sender.state() == RmppSender::State::Done && data_of(got) == data_of(message);
}

TEST(Rmpp, EveryLengthComesOverWhole) {
  for (const std::size_t size : {1U, 199U, 200U, 201U, 400U, 401U, 12800U, 13000U, 26001U}) {
    EXPECT_TRUE(carry(table(size), 1, 0)) << size << " bytes";
  }
}

TEST(Rmpp, LossDuplicationAndReorderingAreRepaired) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    EXPECT_TRUE(carry(table(30000), seed, 10)) << "seed " << seed;
  }
}

TEST(Rmpp, ASenderWithoutAnAnswerGivesUp) {
  RmppSender sender(table(1000), milliseconds(100), 2);
  Instant now{};
  std::vector<Mad> out;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sender.state(), RmppSender::State::Sending);
    sender.poll(out, now);
    now += milliseconds(99);
    sender.handle_timeout(now);
    EXPECT_EQ(sender.state(), RmppSender::State::Sending) << "not yet";
    now += milliseconds(1);
    sender.handle_timeout(now);
  }
  EXPECT_EQ(sender.state(), RmppSender::State::TimedOut);
  EXPECT_EQ(out.size(), 3U) << "the first segment three times";
}

TEST(Rmpp, AnAbortEndsIt) {
  RmppSender sender(table(1000), milliseconds(100), 2);
  std::vector<Mad> out;
  sender.poll(out, Instant{});
  sender.handle(softhca::make_rmpp_abort(out[0], softhca::kRmppStatusTooLong), Instant{});
  EXPECT_EQ(sender.state(), RmppSender::State::Aborted);
}

TEST(Rmpp, HostileSegmentsHarmNobody) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    RmppReceiver receiver;
    RmppSender sender(table(900), milliseconds(100), 2);
    std::vector<Mad> out;
    sender.poll(out, Instant{});
    for (int i = 0; i < 12; ++i) {
      Mad mad = out[0];
      mad[24] = static_cast<std::uint8_t>(random() % 3 != 0);
      mad[26] = static_cast<std::uint8_t>(random() & 7);
      const auto draw = [&random](std::uint32_t small) {
        const auto any = static_cast<std::uint32_t>(random());
        return random() % 2 == 0 ? any : any % small;
      };
      softhca::put32(mad, 28, draw(70));
      softhca::put32(mad, 32, draw(300));
      const bool was_complete = receiver.complete();
      static_cast<void>(receiver.handle(mad));
      if (receiver.complete() && !was_complete) {
        EXPECT_LE(receiver.take().size(), kSaHeader + 70 * kPerSegment);
      }
      mad[25] = static_cast<std::uint8_t>(random() % 6);
      sender.handle(mad, Instant{});
      sender.poll(out, Instant{});
    }
  }
}

}  // namespace
