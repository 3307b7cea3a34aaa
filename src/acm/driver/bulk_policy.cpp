// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/bulk_policy.hpp"

#include <cstdlib>

namespace wireup::acm {

Result<BulkPaths> parse_bulk_paths(std::string_view text) {
  if (text == "auto") {
    return BulkPaths::Auto;
  }
  if (text == "always") {
    return BulkPaths::Always;
  }
  if (text == "never") {
    return BulkPaths::Never;
  }
  return fail(Error::make(Errc::InvalidArgument,
                          "WIREUP_BULK_PATHS is \"%.*s\": auto, always or never are possible",
                          static_cast<int>(text.size()), text.data()));
}

Result<BulkPaths> bulk_paths_of(BulkPaths configured) {
  const char* text = std::getenv("WIREUP_BULK_PATHS");
  if (text == nullptr || *text == '\0') {
    return configured;
  }
  return parse_bulk_paths(text);
}

}  // namespace wireup::acm
