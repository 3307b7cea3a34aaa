// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/words.hpp"

#include <gtest/gtest.h>

namespace softhca {
namespace {

TEST(Words, Numbers) {
  EXPECT_EQ(parse_number("0"), 0U);
  EXPECT_EQ(parse_number("010"), 10U);
  EXPECT_EQ(parse_number("0x1F"), 31U);
  EXPECT_EQ(parse_number("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_number("7", 1, 6), std::nullopt);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "0x", "1k", "18446744073709551616"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(Words, Probabilities) {
  EXPECT_EQ(parse_probability("0"), 0U);
  EXPECT_EQ(parse_probability("1"), 1'000'000U);
  EXPECT_EQ(parse_probability("0.5"), 500'000U);
  EXPECT_EQ(parse_probability("0.5%"), 5'000U);
  EXPECT_EQ(parse_probability("100%"), 1'000'000U);
  for (const char* text : {"", "%", "-0.1", "1.1", "101%", "20", "1e-3", "nan", "0.5 ", "0.5%%"}) {
    EXPECT_EQ(parse_probability(text), std::nullopt) << '"' << text << '"';
  }
}

}  // namespace
}  // namespace softhca
