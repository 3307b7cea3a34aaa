// SPDX-License-Identifier: BSD-3-Clause
#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace wireup::detail {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "wireup: defect: check '%s' failed at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace wireup::detail
