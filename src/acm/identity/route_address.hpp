// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mad/acm.hpp"

namespace wireup::acm {

// An IPoIB link address (RFC 4391): flags and QPN, then the port's GID.
inline constexpr std::size_t kIpoibAddressSize = 20;
inline constexpr std::size_t kGidInIpoibAddress = 4;

/// The address of a message of rtnetlink, whose family is AF_INET (2) or AF_INET6 (10). Nothing for
/// another family or length.
[[nodiscard]] std::optional<mad::AcmAddress> route_address(
    std::uint8_t family, std::span<const std::uint8_t> bytes) noexcept;

}  // namespace wireup::acm
