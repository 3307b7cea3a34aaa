// SPDX-License-Identifier: BSD-3-Clause
#include "settings/file.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "settings/file_model.hpp"

namespace wireup::settings {
namespace {

using namespace std::string_view_literals;

std::vector<std::string> problems_of(std::string_view text) {
  std::vector<std::string> all;
  for (const Error& error : parse_file(text, "f").problems.first) {
    all.emplace_back(error.what());
  }
  return all;
}

TEST(SettingsFile, ValuesWithTheirLines) {
  const auto parsed = parse_file(
      "# a remark\n"
      "device = mlx5_0:2\n"
      "\n"
      "  sa_bulk=never   # why not\r\n"
      "   # indented\n"
      "path_sources = sa, card",
      "f");
  EXPECT_TRUE(parsed.problems.empty());
  const std::vector<FileValue> expected{
      {Id::Device, "mlx5_0:2", 2}, {Id::SaBulk, "never", 4}, {Id::PathSources, "sa_query,card", 6}};
  EXPECT_EQ(parsed.value, expected);
}

TEST(SettingsFile, AHashWithinAValueIsPartOfIt) {
  const auto parsed = parse_file("service_socket = /run/a#b\n", "f");
  ASSERT_EQ(parsed.value.size(), 1U);
  EXPECT_EQ(parsed.value[0].text, "/run/a#b");
}

TEST(SettingsFile, EveryProblemHasFileLineValueAndWhatToDo) {
  const auto problems = problems_of(
      "device mlx5_0\n"
      "devise = mlx5_0\n"
      "cache_entries = 12\n"
      "cache_entries = 128\n"
      "cache_entries = 256\n"
      "= 5\n");
  ASSERT_EQ(problems.size(), 5U);
  EXPECT_EQ(problems[0], "f:1: 'device mlx5_0' has no '=': write name = value");
  EXPECT_EQ(problems[1],
            "f:2: there is no setting 'devise': correct it or take the line out (wireup.conf(5) "
            "has them all)");
  EXPECT_EQ(problems[2], "f:3: 'cache_entries' of '12': use a number from 64 to 16777216");
  EXPECT_EQ(problems[3], "f:5: 'cache_entries' is set in line 4 already: keep one");
  EXPECT_EQ(problems[4],
            "f:6: there is no setting '': correct it or take the line out (wireup.conf(5) has "
            "them all)");
}

TEST(SettingsFile, AWrongLineTakesNothingElseAlong) {
  const auto parsed = parse_file("sa_bulk = often\nsa_bulk = always\n", "f");
  EXPECT_EQ(parsed.problems.count, 1U);
  ASSERT_EQ(parsed.value.size(), 1U);
  EXPECT_EQ(parsed.value[0].text, "always");
}

TEST(SettingsFile, HostileBytes) {
  EXPECT_EQ(problems_of("device = a\0b\n"sv).size(), 1U);
  EXPECT_EQ(problems_of("device = \xFF\xFE\n").size(), 1U);
  EXPECT_EQ(problems_of(std::string(1 << 20, '=')).size(), 1U);
  EXPECT_EQ(problems_of(std::string(1 << 20, '\n') + "x").size(), 1U);
  EXPECT_EQ(parse_file(std::string(5000, 'x') + "\n" + "y\n", "f").problems.count, 2U);
  std::string many;
  for (int i = 0; i < 1000; ++i) {
    many += "nothing\n";
  }
  EXPECT_EQ(parse_file(many, "f").problems.count, 1000U);
  EXPECT_EQ(problems_of(many).size(), Problems::kMaxKept);
}

RC_GTEST_PROP(SettingsFile, WhatIsReadIsAValueOfItsSetting, (const std::string& text)) {
  test::check_settings_file(text);
}

RC_GTEST_PROP(SettingsFile, LinesOfKnownNames, ()) {
  std::string text;
  const auto lines = *rc::gen::container<std::vector<std::pair<unsigned, std::string>>>(
      rc::gen::pair(rc::gen::inRange(0U, unsigned{kCount}), rc::gen::arbitrary<std::string>()));
  for (const auto& [index, value] : lines) {
    text += std::string(table()[index].name) + " = " + value + "\n";
  }
  test::check_settings_file(text);
}

}  // namespace
}  // namespace wireup::settings
