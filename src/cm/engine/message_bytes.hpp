// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "mad/header.hpp"

/// What is kept of a message while it may be repeated.
namespace wireup::cm {

/// The message without the zeros at its end.
[[nodiscard]] inline std::vector<std::uint8_t> trimmed(const mad::Mad& bytes) {
  const auto last =
      std::find_if(bytes.rbegin(), bytes.rend(), [](std::uint8_t byte) { return byte != 0; });
  return {bytes.begin(), last.base()};
}

/// The message that trimmed() was given.
[[nodiscard]] inline mad::Mad whole(std::span<const std::uint8_t> kept) {
  WIREUP_CHECK(kept.size() <= mad::kMadSize);
  mad::Mad bytes{};
  std::copy(kept.begin(), kept.end(), bytes.begin());
  return bytes;
}

}  // namespace wireup::cm
