// SPDX-License-Identifier: BSD-3-Clause
#include "pmix/engine/rank_list.hpp"

#include <gtest/gtest.h>

namespace wireup::pmix {
namespace {

using Ranks = std::vector<std::uint32_t>;

TEST(RankList, ReadsNumbersWithCommas) {
  EXPECT_EQ(parse_rank_list("0", 1), Ranks({0}));
  EXPECT_EQ(parse_rank_list("0,3,12", 13), Ranks({0, 3, 12}));
}

TEST(RankList, SortsAndDropsRepetitions) {
  EXPECT_EQ(parse_rank_list("7,0,3,7", 8), Ranks({0, 3, 7}));
}

TEST(RankList, RefusesAnythingElse) {
  for (const char* text : {"", ",", "0,", ",0", "0,,1", "a", "0 ,1", "0, 1", "-1", "+1", "0-3",
                           "0x1", "4294967296", "99999999999999999999"}) {
    EXPECT_FALSE(parse_rank_list(text, 0xFFFFFFFF)) << '"' << text << '"';
  }
}

TEST(RankList, RefusesARankOutsideTheJob) {
  EXPECT_TRUE(parse_rank_list("3", 4));
  EXPECT_FALSE(parse_rank_list("4", 4));
  EXPECT_FALSE(parse_rank_list("0", 0));
}

}  // namespace
}  // namespace wireup::pmix
