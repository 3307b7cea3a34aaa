// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>
#include <string>

#include "base/bounded_bytes.hpp"
#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "base/timer_table.hpp"

namespace wireup {
namespace {

using namespace std::chrono_literals;

TEST(Id, RefusesWhatDoesNotFitItsWidth) {
  EXPECT_EQ(Qpn::kMax, 0xFFFFFFU);
  EXPECT_EQ(Sl::kMax, 0x0FU);
  EXPECT_EQ(Guid::kMax, 0xFFFFFFFFFFFFFFFFULL);
  EXPECT_TRUE(Qpn::make(0xFFFFFF).has_value());
  EXPECT_FALSE(Qpn::make(0x1000000).has_value());
  EXPECT_FALSE(Sl::make(16).has_value());
  EXPECT_DEATH(static_cast<void>(Qpn(0x1000000)), "check 'value <= kMax' failed");
}

TEST(PKey, MatchesByPartitionWhenOneEndIsAFullMember) {
  EXPECT_TRUE(PKey(0xFFFF).matches(PKey(0x7FFF)));
  EXPECT_TRUE(PKey(0x8001).matches(PKey(0x8001)));
  EXPECT_FALSE(PKey(0x7FFF).matches(PKey(0x7FFF)));
  EXPECT_FALSE(PKey(0x8001).matches(PKey(0x8002)));
  EXPECT_FALSE(PKey(0x8000).matches(PKey(0x8000))) << "partition 0 is invalid";
}

TEST(Gid, IsPrefixThenInterfaceIdInWireOrder) {
  const Gid gid = Gid::make(0xFE80000000000000ULL, Guid(0x0002C90000000021ULL));
  const Gid::Bytes expected = {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x02, 0xC9, 0, 0, 0, 0, 0x21};
  EXPECT_EQ(gid.bytes(), expected);
  EXPECT_EQ(gid.prefix(), 0xFE80000000000000ULL);
  EXPECT_EQ(gid.interface_id(), Guid(0x0002C90000000021ULL));
  EXPECT_STREQ(to_text(gid).data(), "fe80:0000:0000:0000:0002:c900:0000:0021");
  EXPECT_FALSE(gid.is_multicast());
}

TEST(HashNamespace, IsFnv1aAndStable) {
  EXPECT_EQ(hash_namespace(""), 0xCBF29CE484222325ULL);
  EXPECT_EQ(hash_namespace("a"), 0xAF63DC4C8601EC8CULL);
}

TEST(IbTimeout, IsFourMicrosecondsTimesAPowerOfTwo) {
  EXPECT_EQ(IbTimeout(0).duration(), 4096ns);
  EXPECT_EQ(IbTimeout(18).duration(), 1073741824ns);
  EXPECT_EQ(IbTimeout(40).exponent(), 31);
  EXPECT_EQ(IbTimeout::at_least(4096ns).exponent(), 0);
  EXPECT_EQ(IbTimeout::at_least(4097ns).exponent(), 1);
  EXPECT_EQ(IbTimeout::at_least(1s).exponent(), 18);
  EXPECT_EQ(IbTimeout::at_least(100h).exponent(), 31);
}

enum class Slot { Retry, Deadline, kCount };

TEST(TimerTable, GivesTheEarliestDeadlineAndExpiresOnce) {
  TimerTable<Slot> timers;
  EXPECT_FALSE(timers.next().has_value());
  const Instant start{};
  timers.set(Slot::Deadline, start + 10s);
  timers.set(Slot::Retry, start + 1s);
  EXPECT_EQ(timers.next(), start + 1s);
  EXPECT_FALSE(timers.take_expired(Slot::Retry, start + 999ms));
  EXPECT_TRUE(timers.take_expired(Slot::Retry, start + 1s));
  EXPECT_FALSE(timers.take_expired(Slot::Retry, start + 2s));
  EXPECT_EQ(timers.next(), start + 10s);
  timers.stop_all();
  EXPECT_EQ(timers, TimerTable<Slot>{});
}

TEST(Rng, RepeatsItselfFromItsSeedAndKeepsToItsBounds) {
  Rng a(7);
  Rng b(7);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = a.next();
    EXPECT_EQ(value, b.next());
    seen.insert(value);
    EXPECT_LT(a.below(10), 10U);
    static_cast<void>(b.below(10));
    const Duration jittered = a.jitter(100ms, 25);
    EXPECT_GE(jittered, 75ms);
    EXPECT_LE(jittered, 125ms);
    static_cast<void>(b.jitter(100ms, 25));
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(a.below(0), 0U);
}

TEST(Bytes, AreBigEndianAndStayInside) {
  std::array<std::uint8_t, 6> bytes{};
  store_be(bytes, 1, 3, 0x0A0B0C);
  const std::array<std::uint8_t, 6> expected = {0, 0x0A, 0x0B, 0x0C, 0, 0};
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(load_be(bytes, 1, 3), 0x0A0B0CU);
  EXPECT_DEATH(static_cast<void>(load_be(bytes, 4, 3)), "defect");
}

TEST(BoundedBytes, TakesUpToItsCapacity) {
  const std::array<std::uint8_t, 4> four = {1, 2, 3, 4};
  const auto bytes = BoundedBytes<4>::make(four);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(bytes->size(), 4U);
  EXPECT_EQ(bytes->span()[3], 4);
  EXPECT_FALSE(BoundedBytes<3>::make(four).has_value());
}

TEST(Error, SaysWhatHappenedAndKeepsTheErrno) {
  const Error error =
      Error::system(Errc::NoResources, ENOMEM, "creating a CQ of %d entries on %s", 32, "softhca0");
  EXPECT_TRUE(error.is(Errc::NoResources));
  EXPECT_EQ(error.error_number(), ENOMEM);
  EXPECT_EQ(error.what(),
            "creating a CQ of 32 entries on softhca0: Cannot allocate memory (errno 12)");
  EXPECT_EQ(error.code().message(),
            "a resource of the device, the process or the system is exhausted");
  EXPECT_EQ(error_name(Errc::NoDevice), "NoDevice");
  EXPECT_EQ(Error(Errc::Timeout).what(), "the deadline passed");
}

TEST(Error, CutsADetailThatIsTooLong) {
  const std::string text(2 * Error::kDetailSize, 'x');
  EXPECT_EQ(Error::make(Errc::Internal, "%s", text.c_str()).what().size(), Error::kDetailSize - 1);
  EXPECT_EQ(Error::system(Errc::Internal, EIO, "%s", text.c_str()).what().size(),
            Error::kDetailSize - 1);
}

}  // namespace
}  // namespace wireup
