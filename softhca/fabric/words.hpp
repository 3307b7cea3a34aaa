// SPDX-License-Identifier: BSD-3-Clause
// What people write on command lines about a fabric: numbers and ports.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "softhca/fabric/fabric_view.hpp"

namespace softhca {

/// A whole number in decimal or 0x…, from `low` to `high`.
std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t low = 0,
                                          std::uint64_t high = UINT64_MAX);

/// A probability in parts per million: "0.2" or "20%".
std::optional<std::uint32_t> parse_probability(std::string_view text);

/// The ports that "HOST", "HOST:PORT" or "HOST:DEVICE:PORT" names; none when there is no such port.
std::vector<PortIndex> ports_by_name(std::string_view text, const FabricView& view);

}  // namespace softhca
