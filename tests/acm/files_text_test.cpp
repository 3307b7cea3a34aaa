// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "acm/files/address_text.hpp"
#include "base/text.hpp"

namespace wireup::acm {
namespace {

using namespace std::string_view_literals;

/// "number:text" of the lines that say something, and after them the problems.
std::vector<std::string> read(std::string_view text) {
  Problems problems;
  ProblemLog log("f", problems);
  LineReader lines(text);
  std::vector<std::string> all;
  while (const auto line = lines.next(log)) {
    all.push_back(std::to_string(line->number) + ":" + std::string(line->text));
  }
  for (const Error& error : problems.first) {
    all.emplace_back(error.what());
  }
  return all;
}

using Lines = std::vector<std::string>;

TEST(AcmFilesText, LinesEndWithNewlineOrCarriageReturnAndNewlineOrNothing) {
  EXPECT_EQ(read("a b\nc\r\n\n  \t\r\nlast"), (Lines{"1:a b", "2:c\r", "5:last"}));
  EXPECT_EQ(read("only\n"), (Lines{"1:only"}));
  EXPECT_EQ(read(""), Lines{});
  EXPECT_EQ(read("\n"), Lines{});
}

TEST(AcmFilesText, ACommentBeginsInTheFirstColumn) {
  EXPECT_EQ(read("# no\n#\n # yes\na # b\n"), (Lines{"3: # yes", "4:a # b"}));
}

TEST(AcmFilesText, AByteOrderMarkIsNotPartOfTheText) {
  EXPECT_EQ(read("\xEF\xBB\xBF# no\na\n"), (Lines{"2:a"}));
}

TEST(AcmFilesText, ALineWithANulIsReportedAndTheNextOneIsRead) {
  EXPECT_EQ(read("a\0b\nc\n# \0\n"sv),
            (Lines{"2:c", "f:1: a NUL byte in column 2: lines are text; is this the right file?"}));
}

TEST(AcmFilesText, WordsArePartedByAnyBlank) {
  Words words(" one\ttwo\v three\r");
  EXPECT_EQ(words.next(), "one");
  EXPECT_EQ(words.next(), "two");
  EXPECT_EQ(words.next(), "three");
  EXPECT_EQ(words.next(), "");
  EXPECT_EQ(words.next(), "");
}

TEST(AcmFilesText, Numbers) {
  EXPECT_EQ(parse_decimal("0"), 0U);
  EXPECT_EQ(parse_decimal("18446744073709551615"), 18446744073709551615ULL);
  for (const char* none : {"", "-1", "+1", " 1", "1 ", "0x1", "18446744073709551616", "1k"}) {
    EXPECT_EQ(parse_decimal(none), std::nullopt) << none;
  }
  EXPECT_EQ(parse_hexadecimal("fF"), 255U);
  EXPECT_EQ(parse_hexadecimal("0XFE80000000000000"), 0xFE80000000000000ULL);
  for (const char* none : {"", "0x", "g", "0x0x1", "-1", "0x10000000000000000"}) {
    EXPECT_EQ(parse_hexadecimal(none), std::nullopt) << none;
  }
  EXPECT_EQ(parse_number("10"), 10U);
  EXPECT_EQ(parse_number("0x10"), 16U);
  EXPECT_EQ(parse_number("ff"), std::nullopt);
}

TEST(AcmFilesText, OnlyTheFirstTwentyProblemsAreKept) {
  Problems problems;
  ProblemLog log("f", problems);
  for (std::size_t line = 1; line <= 25; ++line) {
    log.add(line, Errc::InvalidArgument, "no");
  }
  EXPECT_EQ(problems.count, 25U);
  ASSERT_EQ(problems.first.size(), 20U);
  EXPECT_EQ(problems.first.back().what(), "f:20: no");
}

TEST(AcmFilesText, WhatIsShownIsShortAndPrintable) {
  EXPECT_STREQ(shown("a\x01z\xFF'\n").data(), "'a?z?'?'");
  EXPECT_STREQ(shown(std::string(32, 'x')).data(), ("'" + std::string(32, 'x') + "'").c_str());
  EXPECT_STREQ(shown(std::string(33, 'x')).data(), ("'" + std::string(32, 'x') + "...'").c_str());
  Problems problems;
  ProblemLog(std::string(100, 'd') + "/name\n", problems).add(7, Errc::InvalidArgument, "no");
  EXPECT_EQ(problems.first.front().what(), "..." + std::string(55, 'd') + "/name?:7: no");
}

/// What inet_pton(3) says of the text.
template <std::size_t N>
std::optional<std::array<std::uint8_t, N>> of_libc(const std::string& text) {
  std::array<std::uint8_t, N> bytes{};
  if (inet_pton(N == 4 ? AF_INET : AF_INET6, text.c_str(), bytes.data()) != 1) {
    return std::nullopt;
  }
  return bytes;
}

TEST(AcmFilesText, AddressesAreReadAsTheSystemReadsThem) {
  for (const std::string text :
       {"10.0.0.1", "0.0.0.0", "255.255.255.255", "256.0.0.1", "1.2.3", "1.2.3.4.5", "1..2.3",
        "01.2.3.4", "1.2.3.4 ", "", ".", "1.2.3.-4", "0x1.2.3.4", "1.2.3.", "1.2.3.00"}) {
    EXPECT_EQ(parse_ipv4(text), of_libc<4>(text)) << text;
  }
  for (const std::string text : {"fe80::2:c903:0:1",
                                 "::",
                                 "::1",
                                 "1::",
                                 "1:2:3:4:5:6:7:8",
                                 "1:2:3:4:5:6:7",
                                 "1::8:9:10",
                                 "1:2:3:4:5:6:7:8:9",
                                 "1:2:3:4:5:6:7::",
                                 "::2:3:4:5:6:7:8",
                                 "1:2:3:4::5:6:7:8",
                                 "1::2::3",
                                 ":::",
                                 ":1",
                                 "1:",
                                 "12345::",
                                 "g::",
                                 "::ffff:10.0.0.1",
                                 "::10.0.0.256",
                                 "1:2:3:4:5:6:1.2.3.4",
                                 "1:2:3:4:5:6:7:1.2.3.4",
                                 "1.2.3.4::",
                                 "FE80::ABCD",
                                 "fe80::1%ib0",
                                 "",
                                 ":",
                                 "0x1::",
                                 "::0001",
                                 "1:2:3:4:5:6:7:8::",
                                 "::1:2:3:4:5:6:7:8"}) {
    EXPECT_EQ(parse_ipv6(text), of_libc<16>(text)) << text;
  }
}

RC_GTEST_PROP(AcmFilesText, AnyTextIsTheAddressThatTheSystemSees, ()) {
  const auto text =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("::::....0123af ")));
  RC_ASSERT(parse_ipv4(text) == of_libc<4>(text));
  RC_ASSERT(parse_ipv6(text) == of_libc<16>(text));
}

/// Groups of which each is likely to be right, so that most texts are nearly addresses.
RC_GTEST_PROP(AcmFilesText, NearlyAddressesToo, ()) {
  const auto pieces = *rc::gen::container<std::vector<std::string>>(
      *rc::gen::inRange<std::size_t>(1, 10),
      rc::gen::elementOf(
          std::vector<std::string>{"0", "1", "ff", "fe80", "c903", "", "12345", "1.2.3.4"}));
  std::string text;
  for (const std::string& piece : pieces) {
    text += (text.empty() ? "" : ":") + piece;
  }
  RC_ASSERT(parse_ipv6(text) == of_libc<16>(text));
}

}  // namespace
}  // namespace wireup::acm
