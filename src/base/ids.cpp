// SPDX-License-Identifier: BSD-3-Clause
#include "base/ids.hpp"

#include <cstdio>

namespace wireup {

GidText to_text(const Gid& gid) noexcept {
  GidText text{};
  const Gid::Bytes& b = gid.bytes();
  for (std::size_t group = 0; group < 8; ++group) {
    const unsigned value = static_cast<unsigned>(b[2 * group] << 8U | b[2 * group + 1]);
    std::snprintf(text.data() + 5 * group, text.size() - 5 * group, group < 7 ? "%04x:" : "%04x",
                  value);
  }
  return text;
}

}  // namespace wireup
