// SPDX-License-Identifier: BSD-3-Clause
#include "umad/sa_notices.hpp"

#include <gtest/gtest.h>

#include "umad/fake_umad.hpp"

namespace wireup::umad {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeUmad;

constexpr std::uint16_t kSmLid = 0x1234;

class SaNoticesTest : public testing::Test {
 protected:
  [[nodiscard]] SaNotices make() {
    SaNotices::Options options;
    options.device = "softhca0";
    options.port = 2;
    options.sm = {Lid(kSmLid), Sl(), 0};
    options.traps = {mad::trap::kInService, mad::trap::kOutOfService};
    return SaNotices(options, now_, FakeUmad::ops());
  }
  void go_on(SaNotices& notices) {
    now_ = std::max(now_, notices.poll_timeout());
    notices.progress(now_);
  }
  /// The answer to the n-th subscription.
  void answer(std::size_t request, std::uint16_t status) { fake_.answer(request, status, nullptr); }
  /// Trap number of the n-th request.
  [[nodiscard]] unsigned trap_of(std::size_t request) const {
    const auto& bytes = fake_.sent.at(request).bytes;
    return static_cast<unsigned>(bytes[56 + 26] << 8U | bytes[56 + 27]);
  }
  void subscribe(SaNotices& notices) {
    go_on(notices);
    answer(fake_.sent.size() - 1, 0);
    notices.progress(now_);
    answer(fake_.sent.size() - 1, 0);
    notices.progress(now_);
    ASSERT_EQ(notices.subscribed(), 2U);
  }

  FakeUmad fake_;
  Instant now_{seconds(1)};
  const Gid gid_ = Gid::make(0xFE80000000000000, Guid(0x77));
};

TEST_F(SaNoticesTest, SubscribesToOneTrapAfterTheOtherButNotAtOnce) {
  SaNotices notices = make();
  notices.progress(now_);
  EXPECT_EQ(fake_.ports_open, 0) << "short jobs have none";
  EXPECT_EQ(notices.fd(), -1);
  go_on(notices);
  EXPECT_GE(now_, Instant(seconds(1) + milliseconds(500)));
  EXPECT_EQ(fake_.registered_class, 3);
  EXPECT_EQ(fake_.registered_methods, 1U << 6U) << "reports";
  EXPECT_GE(notices.fd(), 0);
  ASSERT_EQ(fake_.sent.size(), 1U);
  EXPECT_EQ(fake_.sent[0].bytes[3], 0x02);
  EXPECT_EQ(fake_.sent[0].bytes[17], 0x03);
  EXPECT_EQ(ntohs(fake_.sent[0].address.lid), kSmLid);
  EXPECT_EQ(trap_of(0), 64U);
  answer(0, 0);
  notices.progress(now_);
  ASSERT_EQ(fake_.sent.size(), 2U);
  EXPECT_EQ(trap_of(1), 65U);
  answer(1, 0);
  notices.progress(now_);
  EXPECT_EQ(notices.subscribed(), 2U);
  EXPECT_FALSE(notices.fault().has_value());
  now_ += std::chrono::hours(10);
  notices.progress(now_);
  EXPECT_EQ(fake_.sent.size(), 2U);
}

TEST_F(SaNoticesTest, RefusedOrUnansweredIsTriedAgainWithGrowingWaits) {
  for (const bool silent : {false, true}) {
    fake_.sent.clear();
    SaNotices notices = make();
    go_on(notices);
    Duration longest{};
    for (std::size_t tries = 1; tries <= 12; ++tries) {
      ASSERT_EQ(fake_.sent.size(), tries);
      EXPECT_EQ(trap_of(tries - 1), 64U);
      if (silent) {
        fake_.time_out(tries - 1);
      } else {
        answer(tries - 1, 0x0700);
      }
      notices.progress(now_);
      ASSERT_TRUE(notices.fault().has_value());
      EXPECT_EQ(notices.fault()->is(Errc::Timeout), silent) << notices.fault()->what();
      const Duration wait = notices.poll_timeout() - now_;
      EXPECT_LE(wait, seconds(90));
      longest = std::max(longest, wait);
      go_on(notices);
    }
    EXPECT_GE(longest, seconds(30));
    answer(fake_.sent.size() - 1, 0);
    notices.progress(now_);
    EXPECT_EQ(notices.subscribed(), 1U);
  }
}

TEST_F(SaNoticesTest, AKernelThatForgetsARequestDoesNotHangIt) {
  SaNotices notices = make();
  go_on(notices);
  go_on(notices);  // nothing came back
  EXPECT_TRUE(notices.fault().has_value());
  go_on(notices);
  EXPECT_EQ(fake_.sent.size(), 2U);
}

TEST_F(SaNoticesTest, ReportsAreAnsweredAndHandedOut) {
  SaNotices notices = make();
  subscribe(notices);
  fake_.report(64, gid_, kSmLid, 0x1122334455667788);
  notices.progress(now_);
  ASSERT_EQ(fake_.sent.size(), 3U);
  const FakeUmad::Sent& answer = fake_.sent[2];
  EXPECT_EQ(answer.bytes[3], 0x86);
  EXPECT_EQ(answer.bytes[8], 0x11);
  EXPECT_EQ(answer.bytes[15], 0x88);
  EXPECT_EQ(answer.bytes[17], 0x02);
  EXPECT_EQ(ntohs(answer.address.lid), kSmLid);
  EXPECT_EQ(ntohl(answer.address.qkey), 0x80010000U);
  EXPECT_EQ(answer.timeout_ms, 0) << "an answer waits for nothing";
  const auto notice = notices.poll_notice();
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->trap_number, 64);
  EXPECT_EQ(notice->subject_gid(), gid_);
  EXPECT_FALSE(notices.poll_notice().has_value());
}

TEST_F(SaNoticesTest, OnlyOurSubnetManagersWordCounts) {
  SaNotices notices = make();
  subscribe(notices);
  fake_.report(65, gid_, kSmLid + 1, 1);  // from somebody else
  fake_.report(65, gid_, kSmLid, 2);      // of another attribute
  fake_.waiting.back().bytes[17] = 0x35;
  fake_.report(65, gid_, kSmLid, 3);  // half a MAD
  fake_.waiting.back().size = 100;
  fake_.report(65, gid_, kSmLid, 4);  // of another class
  fake_.waiting.back().bytes[1] = 0x07;
  notices.progress(now_);
  EXPECT_FALSE(notices.poll_notice().has_value());
  EXPECT_EQ(fake_.sent.size(), 2U) << "and is not answered";
  EXPECT_EQ(notices.ignored(), 4U);
}

TEST_F(SaNoticesTest, AFloodOfReportsIsBounded) {
  SaNotices notices = make();
  subscribe(notices);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    fake_.report(65, gid_, kSmLid, i);
  }
  for (int i = 0; i < 100; ++i) {
    notices.progress(now_);
  }
  EXPECT_TRUE(fake_.waiting.empty());
  std::size_t taken = 0;
  while (notices.poll_notice()) {
    ++taken;
  }
  EXPECT_EQ(taken, 1024U);
  EXPECT_EQ(fake_.sent.size(), 2U + taken) << "what is not taken is not answered, and comes again";
}

TEST_F(SaNoticesTest, AnotherSubnetManagerIsToldAnew) {
  SaNotices notices = make();
  subscribe(notices);
  notices.subscribe_again({Lid(0x99), Sl(), 0}, now_);
  EXPECT_EQ(notices.subscribed(), 0U);
  go_on(notices);
  ASSERT_EQ(fake_.sent.size(), 3U);
  EXPECT_EQ(ntohs(fake_.sent[2].address.lid), 0x99);
  // The old one is nobody now.
  fake_.report(64, gid_, kSmLid, 1);
  fake_.report(64, gid_, 0x99, 1);
  notices.progress(now_);
  EXPECT_TRUE(notices.poll_notice().has_value());
  EXPECT_FALSE(notices.poll_notice().has_value());
  EXPECT_EQ(fake_.ports_open, 1);
}

TEST_F(SaNoticesTest, WhoCannotHaveReportsTriesAgain) {
  fake_.register_error = EEXIST;  // another program has them
  SaNotices notices = make();
  for (int i = 0; i < 5; ++i) {
    go_on(notices);
    EXPECT_TRUE(notices.fault().has_value());
    EXPECT_EQ(notices.fd(), -1);
    EXPECT_EQ(fake_.ports_open, 0) << "a port was leaked";
  }
  fake_.register_error = 0;
  go_on(notices);
  EXPECT_GE(notices.fd(), 0);
  EXPECT_EQ(fake_.sent.size(), 1U);
}

TEST_F(SaNoticesTest, CallsThatFailEndNothing) {
  SaNotices notices = make();
  fake_.send_error = ENOMEM;
  go_on(notices);
  EXPECT_TRUE(notices.fault().has_value());
  fake_.send_error = 0;
  fake_.receive_error = EIO;
  go_on(notices);
  EXPECT_TRUE(notices.fault().has_value());
  fake_.receive_error = 0;
  subscribe(notices);
}

}  // namespace
}  // namespace wireup::umad
