// SPDX-License-Identifier: BSD-3-Clause
#include "umad/sa_client.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "umad/fake_umad.hpp"

namespace wireup::umad {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeUmad;

class SaClientTest : public testing::Test {
 protected:
  [[nodiscard]] static SaClient::Options options() {
    SaClient::Options result;
    result.device = "softhca0";
    result.port = 2;
    result.sm = {Lid(0x1234), Sl(5), 1};
    result.timeout = milliseconds(100);
    result.tries = 3;
    return result;
  }
  [[nodiscard]] SaClient open() {
    auto opened = SaClient::open(options(), FakeUmad::ops());
    EXPECT_TRUE(opened.has_value());
    return std::move(*opened);
  }
  [[nodiscard]] static mad::McMemberRecord member() {
    mad::McMemberRecord record;
    record.mgid = Gid({0xFF, 0x15, 0x40, 0x01});
    record.mlid = Lid(0xC003);
    return record;
  }
  /// The text of a failed reply, and its kind.
  static void expect_failure(const std::optional<SaReply>& reply, Errc kind,
                             std::initializer_list<const char*> parts) {
    ASSERT_TRUE(reply.has_value());
    ASSERT_FALSE(reply->record.has_value());
    EXPECT_TRUE(reply->record.error().is(kind)) << reply->record.error().what();
    for (const char* part : parts) {
      EXPECT_NE(reply->record.error().what().find(part), std::string_view::npos)
          << reply->record.error().what() << " does not name " << part;
    }
  }

  FakeUmad fake_;
  Instant now_{seconds(1)};
};

TEST_F(SaClientTest, AsksTheSmOfThePort) {
  SaClient client = open();
  EXPECT_EQ(fake_.opened, "softhca0:2");
  EXPECT_EQ(fake_.registered_class, 3);
  EXPECT_EQ(fake_.registered_version, 2);
  client.join(member(), 0x1B3F7, now_);
  ASSERT_EQ(fake_.sent.size(), 1U);
  const FakeUmad::Sent& sent = fake_.sent[0];
  EXPECT_EQ(ntohs(sent.address.lid), 0x1234);
  EXPECT_EQ(ntohl(sent.address.qpn), 1U);
  EXPECT_EQ(ntohl(sent.address.qkey), 0x80010000U);
  EXPECT_EQ(sent.address.sl, 5);
  // Without a kernel that knows it the library's header has no P_Key index.
  if (umad_size() == sizeof(ib_user_mad)) {
    EXPECT_EQ(sent.address.pkey_index, 1);
  }
  EXPECT_EQ(sent.timeout_ms, 100);
  EXPECT_EQ(sent.retries, 0);
  EXPECT_EQ(sent.bytes[3], 0x02);  // Set
  EXPECT_EQ(sent.bytes[17], 0x38);
  EXPECT_EQ(sent.bytes[54], 0xB3);
}

TEST_F(SaClientTest, AnswersComeBackByTheLowHalfOfTheTid) {
  SaClient client = open();
  const SaRequestId first = client.join(member(), 1, now_);
  const SaRequestId second = client.join(member(), 1, now_);
  EXPECT_NE(first, second);
  const mad::McMemberRecord record = member();
  fake_.answer(1, 0, &record);
  fake_.answer(0, 0, &record);
  client.progress(now_);
  const auto one = client.poll_reply();
  const auto two = client.poll_reply();
  ASSERT_TRUE(one.has_value() && two.has_value());
  EXPECT_EQ(one->id, second);
  EXPECT_EQ(two->id, first);
  ASSERT_TRUE(one->record.has_value());
  EXPECT_EQ(std::get<mad::McMemberRecord>(*one->record).mlid, Lid(0xC003));
  EXPECT_EQ(client.pending(), 0U);
  EXPECT_FALSE(client.poll_timeout().has_value());
}

TEST_F(SaClientTest, PathQueriesGiveAPathRecord) {
  SaClient client = open();
  mad::PathRecord asked;
  asked.dlid = Lid(9);
  client.query_path(asked, mad::path_mask::kDlid, now_);
  EXPECT_EQ(fake_.sent[0].bytes[3], 0x01);
  EXPECT_EQ(fake_.sent[0].bytes[17], 0x35);
  fake_.answer(0, 0, nullptr);
  client.progress(now_);
  const auto reply = client.poll_reply();
  ASSERT_TRUE(reply.has_value() && reply->record.has_value());
  EXPECT_EQ(std::get<mad::PathRecord>(*reply->record).dlid, Lid(9));
}

TEST_F(SaClientTest, SilenceIsAskedAgainThreeTimesThenNamed) {
  SaClient client = open();
  client.join(member(), 1, now_);
  for (std::size_t tries = 1; tries <= 3; ++tries) {
    ASSERT_EQ(fake_.sent.size(), tries);
    EXPECT_EQ(fake_.sent.back().timeout_ms, 100 << (tries - 1));
    EXPECT_FALSE(client.poll_reply().has_value());
    now_ += milliseconds(100 << (tries - 1));
    fake_.time_out(tries - 1);
    client.progress(now_);
  }
  expect_failure(client.poll_reply(), Errc::Timeout,
                 {"softhca0 port 2", "SM LID 4660", "3 tries in 700 ms", "subnet manager"});
}

TEST_F(SaClientTest, AKernelThatForgetsARequestDoesNotHangIt) {
  SaClient client = open();
  client.join(member(), 1, now_);
  for (int i = 0; i < 10 && client.pending() > 0; ++i) {
    ASSERT_TRUE(client.poll_timeout().has_value());
    now_ = *client.poll_timeout();
    client.progress(now_);
  }
  expect_failure(client.poll_reply(), Errc::Timeout, {"3 tries"});
}

TEST_F(SaClientTest, BusyBacksOff) {
  SaClient client = open();
  client.join(member(), 1, now_);
  fake_.answer(0, 0x0001, nullptr);
  client.progress(now_);
  EXPECT_EQ(fake_.sent.size(), 1U) << "not at once";
  ASSERT_TRUE(client.poll_timeout().has_value());
  EXPECT_GE(*client.poll_timeout(), now_ + milliseconds(50));
  now_ = *client.poll_timeout();
  client.progress(now_);
  ASSERT_EQ(fake_.sent.size(), 2U);
  const mad::McMemberRecord record = member();
  fake_.answer(1, 0, &record);
  client.progress(now_);
  ASSERT_TRUE(client.poll_reply()->record.has_value());
}

TEST_F(SaClientTest, RefusalsNameTheStatus) {
  SaClient client = open();
  client.join(member(), 1, now_);
  fake_.answer(0, 0x0700, nullptr);
  client.progress(now_);
  expect_failure(client.poll_reply(), Errc::Rejected,
                 {"softhca0 port 2", "SM LID 4660", "0x0700", "denies"});
}

TEST_F(SaClientTest, StrangeMadsAreNotAnswers) {
  SaClient client = open();
  client.join(member(), 1, now_);
  const mad::McMemberRecord record = member();
  // Another attribute, another method, an unknown TID, half a MAD, another class.
  fake_.answer(0, 0, &record);
  fake_.waiting.back().bytes[17] = 0x35;
  fake_.answer(0, 0, &record);
  fake_.waiting.back().bytes[3] = 0x92;
  fake_.answer(0, 0, &record);
  fake_.waiting.back().bytes[15] ^= 0x40;
  fake_.answer(0, 0, &record);
  fake_.waiting.back().size = 100;
  fake_.answer(0, 0, &record);
  fake_.waiting.back().bytes[1] = 0x07;
  client.progress(now_);
  EXPECT_FALSE(client.poll_reply().has_value());
  EXPECT_EQ(client.pending(), 1U);
  fake_.answer(0, 0, &record);
  client.progress(now_);
  EXPECT_TRUE(client.poll_reply().has_value());
  fake_.answer(0, 0, &record);
  client.progress(now_);
  EXPECT_FALSE(client.poll_reply().has_value()) << "the same answer again";
}

TEST_F(SaClientTest, EveryCallThatFailsIsReported) {
  for (const int error : {EACCES, EPERM}) {
    fake_.open_error = error;
    const auto opened = SaClient::open(options(), FakeUmad::ops());
    ASSERT_FALSE(opened.has_value());
    EXPECT_TRUE(opened.error().is(Errc::NoPermission)) << opened.error().what();
    EXPECT_NE(opened.error().what().find("softhca0 port 2"), std::string_view::npos);
  }
  fake_.open_error = ENODEV;
  EXPECT_TRUE(SaClient::open(options(), FakeUmad::ops()).error().is(Errc::NoDevice));
  fake_.open_error = 0;
  fake_.register_error = ENOMEM;
  EXPECT_TRUE(SaClient::open(options(), FakeUmad::ops()).error().is(Errc::NoResources));
  fake_.register_error = 0;
  EXPECT_EQ(fake_.ports_open, 0) << "a port was leaked";
  {
    SaClient client = open();
    fake_.send_error = ENODEV;
    client.join(member(), 1, now_);
    expect_failure(client.poll_reply(), Errc::NoDevice, {"softhca0 port 2", "LID 4660"});
    fake_.send_error = 0;
    client.join(member(), 1, now_);
    fake_.receive_error = EIO;
    client.progress(now_);
    expect_failure(client.poll_reply(), Errc::NoDevice, {"softhca0 port 2"});
    SaClient moved = std::move(client);
    EXPECT_EQ(fake_.ports_open, 1);
  }
  EXPECT_EQ(fake_.ports_open, 0);
  EXPECT_EQ(fake_.agents, 0);
}

TEST_F(SaClientTest, RandomAnswersNeverEndARequestTwice) {
  Rng rng(3);
  for (int round = 0; round < 500; ++round) {
    SaClient client = open();
    fake_.sent.clear();
    fake_.waiting.clear();
    std::size_t asked = 0;
    std::size_t answered = 0;
    const mad::McMemberRecord record = member();
    for (int step = 0; step < 40; ++step) {
      switch (rng.below(5)) {
        case 0:
          client.join(record, 1, now_);
          ++asked;
          break;
        case 1:
          if (!fake_.sent.empty()) {
            fake_.answer(rng.below(fake_.sent.size()),
                         static_cast<std::uint16_t>(rng.below(4) << (rng.below(2) * 8)), &record);
          }
          break;
        case 2:
          if (!fake_.sent.empty()) {
            fake_.time_out(rng.below(fake_.sent.size()));
          }
          break;
        default:
          now_ += milliseconds(static_cast<int>(rng.below(300)));
          break;
      }
      client.progress(now_);
      while (client.poll_reply()) {
        ++answered;
      }
    }
    while (client.pending() > 0) {
      now_ = std::max(now_, *client.poll_timeout());
      client.progress(now_);
    }
    while (client.poll_reply()) {
      ++answered;
    }
    ASSERT_EQ(answered, asked) << "round " << round;
  }
}

}  // namespace
}  // namespace wireup::umad
