// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "base/result.hpp"

namespace wireup::cm {

/// Errc::InvalidArgument, with both numbers, when `what` is larger than its field.
[[nodiscard]] inline Result<> check_size(const char* what, std::size_t size,
                                         std::size_t limit) noexcept {
  if (size > limit) {
    return fail(
        Error::make(Errc::InvalidArgument, "%s of %zu bytes, at most %zu", what, size, limit));
  }
  return {};
}

}  // namespace wireup::cm
