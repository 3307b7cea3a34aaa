// SPDX-License-Identifier: BSD-3-Clause
#include "mad/rate.hpp"

#include <array>

namespace wireup::mad {
namespace {

struct RateEntry {
  std::uint8_t code;
  std::uint32_t mbps;
};

// SDR to QDR signal at 2.5, 5 and 10 Gb/s a lane; FDR at 14.0625, EDR at 25.78125, and from HDR on
// a lane carries 53.125, 106.25 and 212.5 Gb/s.
constexpr std::array kRates{
    RateEntry{2, 2'500},    RateEntry{3, 10'000},    RateEntry{4, 30'000},
    RateEntry{5, 5'000},    RateEntry{6, 20'000},    RateEntry{7, 40'000},
    RateEntry{8, 60'000},   RateEntry{9, 80'000},    RateEntry{10, 120'000},
    RateEntry{11, 14'062},  RateEntry{12, 56'250},   RateEntry{13, 112'500},
    RateEntry{14, 168'750}, RateEntry{15, 25'781},   RateEntry{16, 103'125},
    RateEntry{17, 206'250}, RateEntry{18, 309'375},  RateEntry{19, 28'125},
    RateEntry{20, 53'125},  RateEntry{21, 425'000},  RateEntry{22, 637'500},
    RateEntry{23, 850'000}, RateEntry{24, 1275'000}, RateEntry{25, 1700'000},
};

struct LinkEntry {
  unsigned lanes;
  std::uint32_t speed;
  std::uint8_t code;
};

// A width and speed take the code whose name is nearest: two lanes of HDR are "100 Gb/s" like four
// of EDR. FDR10 (8) runs at the speed of QDR (4).
constexpr std::array kLinks{
    LinkEntry{1, 1, 2},    LinkEntry{1, 2, 5},    LinkEntry{1, 4, 3},    LinkEntry{1, 8, 3},
    LinkEntry{1, 16, 11},  LinkEntry{1, 32, 15},  LinkEntry{1, 64, 20},  LinkEntry{1, 128, 16},
    LinkEntry{1, 256, 17}, LinkEntry{2, 1, 5},    LinkEntry{2, 2, 3},    LinkEntry{2, 4, 6},
    LinkEntry{2, 8, 6},    LinkEntry{2, 16, 19},  LinkEntry{2, 32, 20},  LinkEntry{2, 64, 16},
    LinkEntry{2, 128, 17}, LinkEntry{2, 256, 21}, LinkEntry{4, 1, 3},    LinkEntry{4, 2, 6},
    LinkEntry{4, 4, 7},    LinkEntry{4, 8, 7},    LinkEntry{4, 16, 12},  LinkEntry{4, 32, 16},
    LinkEntry{4, 64, 17},  LinkEntry{4, 128, 21}, LinkEntry{4, 256, 23}, LinkEntry{8, 1, 6},
    LinkEntry{8, 2, 7},    LinkEntry{8, 4, 9},    LinkEntry{8, 8, 9},    LinkEntry{8, 16, 13},
    LinkEntry{8, 32, 17},  LinkEntry{8, 64, 21},  LinkEntry{8, 128, 23}, LinkEntry{8, 256, 25},
    LinkEntry{12, 1, 4},   LinkEntry{12, 2, 8},   LinkEntry{12, 4, 10},  LinkEntry{12, 8, 10},
    LinkEntry{12, 16, 14}, LinkEntry{12, 32, 18}, LinkEntry{12, 64, 22}, LinkEntry{12, 128, 24},
};

}  // namespace

std::optional<std::uint32_t> rate_mbps(std::uint8_t code) noexcept {
  for (const RateEntry& entry : kRates) {
    if (entry.code == code) {
      return entry.mbps;
    }
  }
  return std::nullopt;
}

std::strong_ordering compare_rates(std::uint8_t a, std::uint8_t b) noexcept {
  return rate_mbps(a).value_or(0) <=> rate_mbps(b).value_or(0);
}

std::uint8_t slower_rate(std::uint8_t a, std::uint8_t b) noexcept {
  if (!rate_mbps(a).has_value()) {
    return b;
  }
  if (!rate_mbps(b).has_value()) {
    return a;
  }
  return compare_rates(a, b) == std::strong_ordering::greater ? b : a;
}

std::optional<std::uint8_t> link_rate(unsigned lanes, std::uint32_t speed) noexcept {
  for (const LinkEntry& entry : kLinks) {
    if (entry.lanes == lanes && entry.speed == speed) {
      return entry.code;
    }
  }
  return std::nullopt;
}

}  // namespace wireup::mad
