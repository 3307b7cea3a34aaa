// SPDX-License-Identifier: BSD-3-Clause
#include "targets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace wireup::tool {
namespace {

using testing::ElementsAre;

std::vector<std::string> expanded(std::string_view text) {
  const auto made = expand_ranges(text);
  return made ? *made : std::vector<std::string>{"refused"};
}

TEST(Ranges, NamesWithoutBracketsStayAsTheyAre) {
  EXPECT_THAT(expanded("node1"), ElementsAre("node1"));
  EXPECT_THAT(expanded(""), ElementsAre(""));
  EXPECT_THAT(expanded("fe80::1"), ElementsAre("fe80::1"));
}

TEST(Ranges, ListsAndRangesInTheirOrder) {
  EXPECT_THAT(expanded("node[1-3,20]"), ElementsAre("node1", "node2", "node3", "node20"));
  EXPECT_THAT(expanded("[3,1]-x"), ElementsAre("3-x", "1-x"));
  EXPECT_THAT(expanded("lid:[7-7]"), ElementsAre("lid:7"));
  EXPECT_THAT(expanded("a[ 1 , 2 ]"), ElementsAre("a1", "a2"));
}

TEST(Ranges, LeadingZerosKeepTheirWidth) {
  EXPECT_THAT(expanded("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(expanded("n[099-101]"), ElementsAre("n099", "n100", "n101"));
  EXPECT_THAT(expanded("n[0-1]"), ElementsAre("n0", "n1"));
}

TEST(Ranges, SeveralBracketsGiveEveryCombination) {
  EXPECT_THAT(expanded("r[1-2]n[3-4]"), ElementsAre("r1n3", "r1n4", "r2n3", "r2n4"));
}

TEST(Ranges, WhatIsWrongIsRefusedWithItsReason) {
  for (const char* wrong :
       {"n[", "n]", "n[]", "n[1", "n[1-]", "n[-1]", "n[3-1]", "n[a-b]", "n[1,]", "n[1-2-3]",
        "n[[1]]", "n[1]]", "n[0x1]", "n[1234567890]", "n[1-2]]x[1]"}) {
    EXPECT_THAT(expanded(wrong), ElementsAre("refused")) << wrong;
  }
  EXPECT_EQ(expand_ranges("n[1").error().what(), "target 'n[1': a '[' without its ']'");
}

TEST(Ranges, NeverMoreThanTheLimit) {
  EXPECT_EQ(expanded("n[1-65536]").size(), 65536U);
  EXPECT_THAT(expanded("n[1-65537]"), ElementsAre("refused"));
  EXPECT_THAT(expanded("n[1-999999999]"), ElementsAre("refused"));
  EXPECT_THAT(expanded("[0-255].[0-255].[0-255]"), ElementsAre("refused"));
  EXPECT_FALSE(expand_ranges("n", 0));
  EXPECT_TRUE(expand_ranges("n[1-2]", 2));
  EXPECT_FALSE(expand_ranges("n[1,2-3]", 2));
}

RC_GTEST_PROP(Ranges, AnyTextIsExpandedWithinTheLimitOrRefused, (const std::string& text)) {
  const auto made = expand_ranges(text, 100);
  RC_ASSERT(!made || (!made->empty() && made->size() <= 100));
}

RC_GTEST_PROP(Ranges, AnythingMadeOfTheSpecialCharacters, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("[]-,0129n")));
  const auto made = expand_ranges(text, 100);
  RC_ASSERT(!made || (!made->empty() && made->size() <= 100));
}

std::string read(std::string_view text, TargetKind kind = TargetKind::Any) {
  const auto target = parse_target(text, kind);
  return target ? mad::to_text(target->address) : "refused";
}

TEST(Targets, KindsAreSeenByTheirForm) {
  EXPECT_EQ(read("node7"), "name node7");
  EXPECT_EQ(read("10.0.0.7"), "IP address 10.0.0.7");
  EXPECT_EQ(read("fe80::5b00:0:0:201"), "GID fe80:0000:0000:0000:5b00:0000:0000:0201");
  EXPECT_EQ(read("2001:db8::1").substr(0, 10), "IP address");
  // A number is a name, unless it is said to be a LID.
  EXPECT_EQ(read("12"), "name 12");
  EXPECT_EQ(read("12", TargetKind::Lid), "LID 12");
}

TEST(Targets, KindsThatAreNamed) {
  EXPECT_EQ(read("lid:0x10"), "LID 16");
  EXPECT_EQ(read("gid:2001:db8::1"), "GID 2001:0db8:0000:0000:0000:0000:0000:0001");
  EXPECT_EQ(read("ip:fe80::1").substr(0, 10), "IP address");
  EXPECT_EQ(read("name:10.0.0.7"), "name 10.0.0.7");
  EXPECT_EQ(read("name:x", TargetKind::Lid), "name x");
}

TEST(Targets, WhatLooksLikeAnAddressAndIsNoneIsNoName) {
  for (const char* wrong : {"10.0.0.256", "fe80::1::2", "", "lid:", "lid:0", "lid:49152", "lid:x",
                            "gid:10.0.0.1", "gid:ff12::1", "gid:::", "ip:node1", "name:"}) {
    EXPECT_EQ(read(wrong), "refused") << wrong;
  }
  EXPECT_EQ(read("node1", TargetKind::Lid), "refused");
  EXPECT_EQ(read(std::string(65, 'n')), "refused");
}

TEST(Targets, AllWordsTogetherAreBounded) {
  const auto targets = parse_targets({"node[1-2]", "lid:[3-4]"}, TargetKind::Any);
  ASSERT_TRUE(targets);
  ASSERT_EQ(targets->size(), 4U);
  EXPECT_EQ((*targets)[3].text, "lid:4");
  EXPECT_FALSE(parse_targets({"a[1-65536]", "b"}, TargetKind::Any));
  EXPECT_FALSE(parse_targets({"a", "b["}, TargetKind::Any));
}

}  // namespace
}  // namespace wireup::tool
