// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

#include "acm/engine/config.hpp"
#include "base/result.hpp"

namespace wireup::acm {

/// "auto", "always" or "never"; Errc::InvalidArgument for anything else.
[[nodiscard]] Result<BulkPaths> parse_bulk_paths(std::string_view text);

/// `configured`, unless WIREUP_BULK_PATHS in the environment says otherwise.
[[nodiscard]] Result<BulkPaths> bulk_paths_of(BulkPaths configured);

}  // namespace wireup::acm
