// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// Four decimal numbers without leading zeros, as inet_pton(3) wants them.
[[nodiscard]] std::optional<std::array<std::uint8_t, 4>> parse_ipv4(std::string_view text) noexcept;

/// As inet_pton(3): up to four hexadecimal digits a group, one "::", an IPv4 address at the end. No
/// zone.
[[nodiscard]] std::optional<std::array<std::uint8_t, 16>> parse_ipv6(
    std::string_view text) noexcept;

/// The address that `word` writes: IPv4, IPv6, else a name of up to 64 bytes. What looks like an
/// address and is none (10.0.0.256), a control character and a longer name are reported.
[[nodiscard]] std::optional<mad::AcmAddress> parse_address(std::string_view word, const Line& line,
                                                           ProblemLog& log);

}  // namespace wireup::acm
