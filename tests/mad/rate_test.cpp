// SPDX-License-Identifier: BSD-3-Clause
#include "mad/rate.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace wireup::mad {
namespace {

TEST(Mtu, CodesDoubleFrom256) {
  EXPECT_EQ(mtu_bytes(1), 256U);
  EXPECT_EQ(mtu_bytes(4), 2048U);
  EXPECT_EQ(mtu_bytes(5), 4096U);
  EXPECT_FALSE(mtu_bytes(0).has_value());
  EXPECT_FALSE(mtu_bytes(6).has_value());
}

TEST(Rate, EveryCodeHasItsSpeed) {
  // Gb/s by name: 2.5 10 30 5 20 40 60 80 120 14 56 112 168 25 100 200 300 28 50 400 600 800 1200
  // 1600, codes 2 to 25.
  constexpr std::array<std::uint32_t, 24> kMbps{2500,   10000,  30000,  5000,   20000,   40000,
                                                60000,  80000,  120000, 14062,  56250,   112500,
                                                168750, 25781,  103125, 206250, 309375,  28125,
                                                53125,  425000, 637500, 850000, 1275000, 1700000};
  for (std::size_t i = 0; i < kMbps.size(); ++i) {
    EXPECT_EQ(rate_mbps(static_cast<std::uint8_t>(i + 2)), kMbps[i]) << "code " << i + 2;
  }
  EXPECT_FALSE(rate_mbps(0).has_value());
  EXPECT_FALSE(rate_mbps(1).has_value());
  EXPECT_FALSE(rate_mbps(26).has_value());
}

TEST(Rate, OrderIsBySpeedNotByCode) {
  // Ascending speed: 2.5 5 10 14 20 25 28 30 40 50 56 60 80 100 112 120 168 200 300 400 600 800.
  constexpr std::array<std::uint8_t, 22> kAscending{2, 5, 3,  11, 6,  15, 19, 4,  7,  20, 12,
                                                    8, 9, 16, 13, 10, 14, 17, 18, 21, 22, 23};
  for (std::size_t i = 0; i + 1 < kAscending.size(); ++i) {
    EXPECT_EQ(compare_rates(kAscending[i], kAscending[i + 1]), std::strong_ordering::less)
        << "codes " << unsigned{kAscending[i]} << " and " << unsigned{kAscending[i + 1]};
  }
  EXPECT_EQ(compare_rates(7, 7), std::strong_ordering::equal);
  EXPECT_EQ(compare_rates(63, 2), std::strong_ordering::less);
}

TEST(Rate, SlowerIgnoresTheUnknown) {
  EXPECT_EQ(slower_rate(15, 9), 15);
  EXPECT_EQ(slower_rate(9, 15), 15);
  EXPECT_EQ(slower_rate(0, 9), 9);
  EXPECT_EQ(slower_rate(9, 0), 9);
}

TEST(Rate, LinksUpToXdr) {
  EXPECT_EQ(link_rate(4, 1), 3);      // 4x SDR 10
  EXPECT_EQ(link_rate(4, 4), 7);      // 4x QDR 40
  EXPECT_EQ(link_rate(4, 8), 7);      // 4x FDR10 40
  EXPECT_EQ(link_rate(4, 16), 12);    // 4x FDR 56
  EXPECT_EQ(link_rate(4, 32), 16);    // 4x EDR 100
  EXPECT_EQ(link_rate(2, 64), 16);    // 2x HDR 100
  EXPECT_EQ(link_rate(4, 64), 17);    // 4x HDR 200
  EXPECT_EQ(link_rate(4, 128), 21);   // 4x NDR 400
  EXPECT_EQ(link_rate(4, 256), 23);   // 4x XDR 800
  EXPECT_EQ(link_rate(8, 256), 25);   // 8x XDR 1600
  EXPECT_EQ(link_rate(12, 128), 24);  // 12x NDR 1200
  EXPECT_FALSE(link_rate(12, 256).has_value());
  EXPECT_FALSE(link_rate(3, 1).has_value());
  EXPECT_FALSE(link_rate(4, 512).has_value());
}

}  // namespace
}  // namespace wireup::mad
