// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "mad/acm.hpp"

namespace wireup::api {

/// Reads the address of a port as wireup_resolve_address() takes it. Errc::InvalidArgument with the
/// text and what is possible.
[[nodiscard]] Result<mad::AcmAddress> parse_target(std::string_view text);

}  // namespace wireup::api
