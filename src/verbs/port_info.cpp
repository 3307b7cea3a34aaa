// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/port_info.hpp"

#include <cstdio>

namespace wireup::verbs {

std::optional<std::uint16_t> PortInfo::pkey_index(PKey pkey) const noexcept {
  std::optional<std::uint16_t> same_partition;
  for (std::size_t i = 0; i < pkeys.size(); ++i) {
    const auto index = static_cast<std::uint16_t>(i);
    if (pkeys[i] == pkey) {
      return index;
    }
    if (!same_partition.has_value() && pkeys[i].partition() != 0 &&
        pkeys[i].partition() == pkey.partition()) {
      same_partition = index;
    }
  }
  return same_partition;
}

std::array<char, 96> PortInfo::name() const noexcept {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "%.70s port %u", device.c_str(),
                static_cast<unsigned>(port));
  return text;
}

std::uint8_t rate_code(std::uint8_t width, std::uint32_t speed) noexcept {
  // IBTA vol 1, table of PathRecord:Rate, ordered by width 1x, 2x, 4x, 8x, 12x.
  struct Row {
    std::uint32_t speed;
    std::uint8_t codes[5];
  };
  static constexpr Row kRows[] = {
      {1, {2, 5, 3, 6, 4}},         // SDR: 2.5, 5, 10, 20, 30
      {2, {5, 3, 6, 7, 8}},         // DDR: 5, 10, 20, 40, 60
      {4, {3, 6, 7, 9, 10}},        // QDR: 10, 20, 40, 80, 120
      {8, {3, 6, 7, 9, 10}},        // FDR10 counts as QDR
      {16, {11, 19, 12, 13, 14}},   // FDR: 14, 28, 56, 112, 168
      {32, {15, 20, 16, 17, 18}},   // EDR: 25, 50, 100, 200, 300
      {64, {20, 16, 17, 21, 22}},   // HDR: 50, 100, 200, 400, 600
      {128, {16, 17, 21, 23, 24}},  // NDR: 100, 200, 400, 800, 1200
      {256, {17, 21, 23, 0, 0}},    // XDR: 200, 400, 800; wider links have no code here
  };
  std::size_t column = 0;
  switch (width) {
    case 1:
      column = 0;
      break;
    case 16:
      column = 1;
      break;
    case 2:
      column = 2;
      break;
    case 4:
      column = 3;
      break;
    case 8:
      column = 4;
      break;
    default:
      return 0;
  }
  for (const Row& row : kRows) {
    if (row.speed == speed) {
      return row.codes[column];
    }
  }
  return 0;
}

}  // namespace wireup::verbs
