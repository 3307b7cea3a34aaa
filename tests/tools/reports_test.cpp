// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache_report.hpp"
#include "tools/sample_record.hpp"
#include "verify_report.hpp"

namespace wireup::tool {
namespace {

using testing::HasSubstr;
using testing::Not;

acm::CachedPath entry(Duration age) {
  acm::CachedPath entry;
  entry.key.sgid = sample_record().sgid;
  entry.key.dgid = sample_record().dgid;
  entry.key.pkey = sample_record().pkey;
  entry.path = {sample_record(), acm::PathOrigin::AcmMulticast, 3, age};
  return entry;
}

acm::CacheView view() {
  acm::CacheView view;
  view.file = {"/dev/shm/wireup-0-acm1-5b00000000000101-7fff.0",
               0,
               false,
               Guid(0x5B00000000000101),
               0x7FFF,
               0};
  view.capacity = 64;
  view.generation = 3;
  view.bytes = 64 + 64 * 96;
  view.entries = {entry(std::chrono::seconds(90)), entry(std::chrono::seconds(1))};
  view.entries[0].key.sl = Sl(3);
  return view;
}

TEST(CacheReport, TitleAndSize) {
  EXPECT_EQ(cache_title(view()),
            "/dev/shm/wireup-0-acm1-5b00000000000101-7fff.0: uid 0 port GUID 0x5b00000000000101 "
            "partition 0x7fff generation 3");
  EXPECT_EQ(size_line(size_of(view())), "2 of 64 places, 6208 bytes, 97.0 each");
  EXPECT_EQ(size_of(acm::CacheView{}).bytes_per_place, 0.0);
}

TEST(CacheReport, TheYoungestEntryIsFirst) {
  const std::string text = entries_text(view());
  EXPECT_THAT(text, HasSubstr("source acm_multicast age 1.0s generation 3\n"));
  EXPECT_TRUE(text.ends_with("age 1m30s generation 3 for SL 3")) << text;
}

TEST(CacheReport, Json) {
  const auto json = cache_json(view(), true);
  EXPECT_EQ(json["capacity"], 64);
  EXPECT_EQ(json["bytes"], 6208);
  ASSERT_EQ(json["entries"].size(), 2U);
  EXPECT_EQ(json["entries"][0]["age_seconds"], 1.0);
  EXPECT_EQ(json["entries"][1]["key_sl"], 3);
  EXPECT_FALSE(cache_json(view(), false).contains("entries"));
}

VerifyReport report() {
  mad::PathRecord sa = sample_record();
  sa.sl = Sl(0);
  VerifyReport report{"softhca0 port 1",
                      "/dev/shm/x",
                      PKey(0xFFFF),
                      {{entry(std::chrono::seconds(1)), sa, way_back(sa)},
                       {entry(std::chrono::seconds(2)), sample_record(), way_back(sample_record())},
                       {entry(std::chrono::seconds(3)), fail(Error::make(Errc::Timeout, "silence")),
                        way_back(sample_record())}},
                      {}};
  report.verdict = judge(report.paths);
  return report;
}

TEST(VerifyReport, WhatDiffersIsShownWithBothValues) {
  const std::string text = verify_text(report(), false);
  EXPECT_THAT(text, HasSubstr("outward: sl 3, the SA says 0\n"));
  EXPECT_THAT(text, HasSubstr("inward: sl 3, the SA says 0\n"));
  EXPECT_THAT(text, HasSubstr("outward: no answer: silence\n"));
  EXPECT_THAT(text, HasSubstr("3 checked, 1 differ, 1 without an answer\n"));
  EXPECT_THAT(text, HasSubstr("multicast paths can be trusted: no"));
  EXPECT_THAT(text, HasSubstr("to do: set route_prot sa"));
  EXPECT_THAT(text, Not(HasSubstr("outward: same")));
  EXPECT_THAT(verify_text(report(), true), HasSubstr("outward: same\n"));
}

TEST(VerifyReport, Json) {
  const auto json = verify_json(report());
  EXPECT_EQ(json["differ"], 1);
  EXPECT_EQ(json["multicast_trusted"], "no");
  ASSERT_EQ(json["paths"].size(), 3U);
  const auto& outward = json["paths"][0]["outward"];
  EXPECT_EQ(outward["same"], false);
  EXPECT_EQ(outward["differences"][0]["field"], "sl");
  EXPECT_EQ(outward["differences"][0]["cached"], "3");
  EXPECT_EQ(outward["sa"]["sl"], 0);
  EXPECT_EQ(json["paths"][2]["outward"]["error"], "silence");
}

}  // namespace
}  // namespace wireup::tool
