// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/port_text.hpp"

#include <array>
#include <cstdio>

namespace softhca {

const char* port_state_name(std::uint8_t state) {
  constexpr std::array<const char*, 5> kNames = {"?", "DOWN", "INIT", "ARMED", "ACTIVE"};
  return state < kNames.size() ? kNames[state] : kNames[0];
}

std::uint32_t mtu_bytes(std::uint8_t code) {
  return code >= 1 && code <= 5 ? 128U << code : 0;
}

std::uint32_t width_lanes(std::uint8_t code) {
  switch (code) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

std::uint32_t rate_tenths(const PortRecord& port) {
  const std::uint32_t lanes = width_lanes(port.active_width);
  // Per lane. FDR is 14.0625 Gb/s, of which sysfs shows 14 per lane (4x: 56).
  std::uint32_t lane = 0;
  switch (port.active_speed_ext) {
    case 1:
      lane = 140;
      break;
    case 2:
      lane = 250;
      break;
    case 4:
      lane = 500;
      break;
    case 8:
      lane = 1000;
      break;
    default:
      lane = 25U * (port.active_speed == 0 ? 1U : port.active_speed);
  }
  return lanes * lane;
}

std::string rate_text(const PortRecord& port) {
  const std::uint32_t tenths = rate_tenths(port);
  std::string text = std::to_string(tenths / 10);
  if (tenths % 10 != 0) {
    text += "." + std::to_string(tenths % 10);
  }
  return text;
}

std::string gid_text(const Gid& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.size(); i += 2) {
    std::array<char, 8> group{};
    std::snprintf(group.data(), group.size(), "%s%02x%02x", i == 0 ? "" : ":",
                  static_cast<unsigned>(gid[i]), static_cast<unsigned>(gid[i + 1]));
    text += group.data();
  }
  return text;
}

}  // namespace softhca
