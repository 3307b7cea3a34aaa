// SPDX-License-Identifier: BSD-3-Clause
#include "path_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/sample_record.hpp"

namespace wireup::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

acm::CachedPath cached(const mad::PathRecord& record,
                       acm::PathOrigin origin = acm::PathOrigin::SaQuery) {
  acm::CachedPath entry;
  entry.key.sgid = record.sgid;
  entry.key.dgid = record.dgid;
  entry.key.pkey = record.pkey;
  entry.path.record = record;
  entry.path.origin = origin;
  return entry;
}

/// To another port, `peer`, which is as good as the sample's.
mad::PathRecord record_to(std::uint64_t peer) {
  mad::PathRecord record = sample_record();
  record.dgid = Gid::make(0xFE80000000000000, Guid(peer));
  record.dlid = Lid(static_cast<std::uint16_t>(peer));
  return record;
}

CheckedPath good(const mad::PathRecord& record, acm::PathOrigin origin = acm::PathOrigin::SaQuery) {
  return {cached(record, origin), record, way_back(record)};
}

TEST(PathCheck, EqualRecordsDoNotDiffer) {
  mad::PathRecord sa = sample_record();
  EXPECT_THAT(differences(sample_record(), sa), IsEmpty());
  // How a value was asked for, and what no packet depends on.
  sa.mtu_selector = mad::Selector::GreaterThan;
  sa.rate_selector = mad::Selector::Largest;
  sa.packet_lifetime_selector = mad::Selector::LessThan;
  sa.numb_path = 1;
  sa.qos_class = 7;
  sa.service_id = ServiceId(5);
  sa.preference = 1;
  sa.pkey = PKey(0x7FFF);
  EXPECT_THAT(differences(sample_record(), sa), IsEmpty());
}

TEST(PathCheck, EveryFieldThatAPacketDependsOnIsCompared) {
  mad::PathRecord sa;
  sa.sgid = Gid::make(1, Guid(2));
  sa.dgid = Gid::make(3, Guid(4));
  sa.slid = Lid(20);
  sa.dlid = Lid(21);
  sa.sl = Sl(4);
  sa.mtu = 5;
  sa.rate = 16;
  sa.pkey = PKey(0x8001);
  sa.packet_lifetime = 3;
  sa.flow_label = FlowLabel(6);
  sa.hop_limit = 64;
  sa.traffic_class = 9;
  std::vector<std::string> fields;
  for (const Difference& each : differences(sample_record(), sa)) {
    fields.emplace_back(each.field);
  }
  EXPECT_THAT(fields, ElementsAre("dgid", "sgid", "dlid", "slid", "sl", "mtu", "rate", "pkey",
                                  "packet_lifetime", "flow_label", "hop_limit", "traffic_class"));
}

TEST(PathCheck, ADifferenceHasBothValuesInTheirUnits) {
  mad::PathRecord sa = sample_record();
  sa.mtu = 5;
  sa.sl = Sl(0);
  EXPECT_THAT(differences(sample_record(), sa),
              ElementsAre(Difference{"sl", "3", "0"}, Difference{"mtu", "2048", "4096"}));
}

TEST(PathCheck, APathIsGoodWhenBothDirectionsAre) {
  EXPECT_TRUE(good(sample_record()).is_good());
  CheckedPath path = good(sample_record(), acm::PathOrigin::AcmMulticast);
  path.inward->sl = Sl(5);
  EXPECT_FALSE(path.is_good());
  EXPECT_THAT(path.outward_differences(), IsEmpty());
  EXPECT_THAT(path.inward_differences(), ElementsAre(Difference{"sl", "3", "5"}));
  path = good(sample_record());
  path.outward = fail(Errc::Timeout);
  EXPECT_FALSE(path.is_good());
  EXPECT_THAT(path.outward_differences(), IsEmpty());
}

TEST(PathCheck, ThePathThatTheSaToldIsOfOneDirection) {
  CheckedPath path = good(sample_record());
  path.inward->sl = Sl(5);
  EXPECT_TRUE(path.is_good());
  EXPECT_THAT(path.inward_differences(), IsEmpty());
}

TEST(Verdict, EqualEverywhereIsTrusted) {
  const auto verdict = judge({good(record_to(4)), good(record_to(5)), good(record_to(6))});
  EXPECT_EQ(verdict.multicast, Trust::Yes);
  EXPECT_THAT(verdict.reasons, IsEmpty());
  EXPECT_EQ(verdict.advice, "");
  EXPECT_EQ(verdict.checked, 3U);
  EXPECT_EQ(verdict.wrong, 0U);
}

TEST(Verdict, AnSlThatDiffersByDirectionIsNotTrusted) {
  CheckedPath path = good(sample_record(), acm::PathOrigin::AcmMulticast);
  path.inward->sl = Sl(7);
  const auto verdict = judge({path});
  EXPECT_EQ(verdict.multicast, Trust::No);
  ASSERT_EQ(verdict.reasons.size(), 1U);
  EXPECT_THAT(verdict.reasons[0], HasSubstr("SL differs by direction"));
  EXPECT_THAT(verdict.advice, HasSubstr("route_prot sa"));
  EXPECT_EQ(verdict.wrong, 1U);
}

TEST(Verdict, ARateThatDiffersByDestinationIsNotTrusted) {
  mad::PathRecord slow = record_to(5);
  slow.rate = 3;
  const auto verdict = judge({good(record_to(4)), good(slow)});
  EXPECT_EQ(verdict.multicast, Trust::No);
  ASSERT_EQ(verdict.reasons.size(), 1U);
  EXPECT_THAT(verdict.reasons[0], HasSubstr("rate differs by destination"));
  // As cached all the same.
  EXPECT_EQ(verdict.wrong, 0U);
}

TEST(Verdict, APathToASwitchSaysNothing) {
  mad::PathRecord slow = record_to(5);
  slow.rate = 3;
  CheckedPath to_switch = good(slow);
  to_switch.is_switch = true;
  EXPECT_EQ(judge({to_switch, good(record_to(4)), good(record_to(6))}).multicast, Trust::Yes);
  to_switch.inward->mtu = 1;
  EXPECT_EQ(judge({to_switch, good(record_to(4))}).multicast, Trust::Yes);
}

TEST(Verdict, AGroupsPathThatIsNotTheSasIsNotTrusted) {
  CheckedPath path = good(sample_record(), acm::PathOrigin::AcmMulticast);
  path.outward->mtu = 5;
  path.inward->mtu = 5;
  const auto verdict = judge({path});
  EXPECT_EQ(verdict.multicast, Trust::No);
  ASSERT_EQ(verdict.reasons.size(), 1U);
  EXPECT_THAT(verdict.reasons[0], HasSubstr("made from a group"));
  // From elsewhere, such a path says nothing of groups.
  path.cached.path.origin = acm::PathOrigin::Preloaded;
  EXPECT_EQ(judge({path}).multicast, Trust::Yes);
  EXPECT_EQ(judge({path}).wrong, 1U);
}

TEST(Verdict, UnknownWithoutPathsOrAnswers) {
  EXPECT_EQ(judge({}).multicast, Trust::Unknown);
  CheckedPath path = good(sample_record());
  path.inward = fail(Error::make(Errc::Timeout, "no answer"));
  const auto verdict = judge({path, good(record_to(5))});
  EXPECT_EQ(verdict.multicast, Trust::Unknown);
  EXPECT_EQ(verdict.unanswered, 1U);
  EXPECT_THAT(verdict.reasons, ElementsAre("the SA did not answer for 1 of 2 paths"));
}

TEST(Verdict, ADifferenceCountsEvenWhereAnotherPathHasNoAnswer) {
  CheckedPath unanswered = good(sample_record());
  unanswered.outward = fail(Errc::Timeout);
  CheckedPath differing = good(record_to(5));
  differing.inward->sl = Sl(7);
  EXPECT_EQ(judge({unanswered, differing}).multicast, Trust::No);
}

}  // namespace
}  // namespace wireup::tool
