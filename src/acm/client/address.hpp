// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

enum class AddressForm : std::uint8_t { Guessed, Name, Ip, Gid, Lid };

/// An address as a person writes it. Guessed: IPv6 notation with the prefix fe80::/10 is a GID,
/// since such an IPv6 address means nothing without an interface; other IP notation is an IP
/// address, all else a name. A LID is unicast, decimal or hexadecimal with 0x. What looks like an
/// address and is none is refused, not taken for a name. Errc::InvalidArgument.
[[nodiscard]] Result<mad::AcmAddress> read_address(std::string_view text, AddressForm form);

}  // namespace wireup::acm
