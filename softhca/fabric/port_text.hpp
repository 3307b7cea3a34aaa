// SPDX-License-Identifier: BSD-3-Clause
// Codes of PortInfo as numbers and words for people.
#pragma once

#include <cstdint>
#include <string>

#include "softhca/fabric/fabric_view.hpp"

namespace softhca {

/// "DOWN", "INIT", "ARMED", "ACTIVE" or "?".
const char* port_state_name(std::uint8_t state);

/// 256 … 4096, 0 for an unknown code.
std::uint32_t mtu_bytes(std::uint8_t code);

/// Link width in lanes, 0 for an unknown code.
std::uint32_t width_lanes(std::uint8_t code);

/// Rate of the port in units of 0.1 Gb/s, counted as sysfs does: 25 for 1x SDR, 1000 for 4x EDR.
std::uint32_t rate_tenths(const PortRecord& port);

/// "100" or "2.5", Gb/s.
std::string rate_text(const PortRecord& port);

/// Eight groups of four hexadecimal digits.
std::string gid_text(const Gid& gid);

}  // namespace softhca
