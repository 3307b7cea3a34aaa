// SPDX-License-Identifier: BSD-3-Clause
#include "mad/field.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace wireup::mad {
namespace {

TEST(Field, ReadsBitsFromTheMostSignificantOn) {
  const std::array<std::uint8_t, 3> bytes = {0xA5, 0x3C, 0xFF};
  EXPECT_EQ((Field{0, 0, 4}.get(bytes)), 0xAU);
  EXPECT_EQ((Field{0, 4, 4}.get(bytes)), 0x5U);
  EXPECT_EQ((Field{0, 4, 8}.get(bytes)), 0x53U) << "across a byte boundary";
  EXPECT_EQ((Field{1, 2, 3}.get(bytes)), 0x7U);
  EXPECT_EQ((Field{0, 0, 24}.get(bytes)), 0xA53CFFU);
}

TEST(Field, WritesOnlyItsOwnBits) {
  std::array<std::uint8_t, 4> bytes = {0xFF, 0xFF, 0xFF, 0xFF};
  Field{1, 3, 10}.put(bytes, 0);
  const std::array<std::uint8_t, 4> expected = {0xFF, 0xE0, 0x07, 0xFF};
  EXPECT_EQ(bytes, expected);
}

TEST(Field, CarriesSixtyFourBits) {
  std::array<std::uint8_t, 8> bytes{};
  constexpr Field kWhole{0, 0, 64};
  kWhole.put(bytes, 0x0102030405060708ULL);
  const std::array<std::uint8_t, 8> expected = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(kWhole.get(bytes), 0x0102030405060708ULL);
  EXPECT_EQ(kWhole.max(), 0xFFFFFFFFFFFFFFFFULL);
}

TEST(Field, RefusesAValueThatDoesNotFit) {
  std::array<std::uint8_t, 1> bytes{};
  EXPECT_DEATH((Field{0, 0, 3}.put(bytes, 8)), "value <= max");
}

TEST(Field, OverlapAndOverhangAreSeenAtCompileTime) {
  static_assert(fields_are_disjoint(std::array{Field{0, 0, 8}, Field{1, 0, 8}}, 2));
  static_assert(!fields_are_disjoint(std::array{Field{0, 0, 9}, Field{1, 0, 8}}, 2));
  static_assert(!fields_are_disjoint(std::array{Field{0, 0, 17}}, 2));
}

}  // namespace
}  // namespace wireup::mad
