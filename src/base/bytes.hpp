// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.hpp"

namespace wireup {

/// Big-endian integers of 1 to 8 bytes at an offset of a buffer. Offsets come from our own tables,
/// so one outside the buffer is a defect; check lengths of received bytes before.
[[nodiscard]] constexpr std::uint64_t load_be(std::span<const std::uint8_t> from,
                                              std::size_t offset, std::size_t size) noexcept {
  WIREUP_CHECK(size <= 8 && offset <= from.size() && size <= from.size() - offset);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value = value << 8U | from[offset + i];
  }
  return value;
}

constexpr void store_be(std::span<std::uint8_t> to, std::size_t offset, std::size_t size,
                        std::uint64_t value) noexcept {
  WIREUP_CHECK(size <= 8 && offset <= to.size() && size <= to.size() - offset);
  for (std::size_t i = 0; i < size; ++i) {
    to[offset + i] = static_cast<std::uint8_t>(value >> (8 * (size - 1 - i)));
  }
}

}  // namespace wireup
