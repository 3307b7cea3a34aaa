// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <iterator>

#include "base/ids.hpp"

namespace wireup::verbs {

/// GIDs as the verbs have them.
[[nodiscard]] inline ibv_gid raw_gid(const Gid& gid) noexcept {
  ibv_gid raw{};
  std::copy(gid.bytes().begin(), gid.bytes().end(), std::begin(raw.raw));
  return raw;
}
[[nodiscard]] inline Gid to_gid(const ibv_gid& raw) noexcept {
  Gid::Bytes bytes{};
  std::copy(std::begin(raw.raw), std::end(raw.raw), bytes.begin());
  return Gid(bytes);
}

}  // namespace wireup::verbs
