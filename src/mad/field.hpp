// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.hpp"

namespace wireup::mad {

/// A field of a message as the specification's tables name it: byte offset from the start of the
/// message, first bit within that byte counted from the most significant (0) to the least (7), and
/// width in bits (1 to 64). A field may cross byte boundaries; it is big-endian.
struct Field {
  std::size_t byte;
  unsigned bit;
  unsigned width;

  [[nodiscard]] constexpr std::size_t first_bit() const noexcept { return byte * 8 + bit; }
  [[nodiscard]] constexpr std::size_t end_bit() const noexcept { return first_bit() + width; }
  [[nodiscard]] constexpr std::uint64_t max() const noexcept {
    return width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  }

  [[nodiscard]] constexpr std::uint64_t get(std::span<const std::uint8_t> message) const noexcept {
    WIREUP_CHECK(end_bit() <= message.size() * 8);
    std::uint64_t value = 0;
    std::size_t at = first_bit();
    unsigned left = width;
    while (left > 0) {
      const auto skipped = static_cast<unsigned>(at % 8);
      const unsigned taken = left < 8 - skipped ? left : 8 - skipped;
      const unsigned shifted = static_cast<unsigned>(message[at / 8]) >> (8 - skipped - taken);
      value = value << taken | (shifted & ((1U << taken) - 1));
      at += taken;
      left -= taken;
    }
    return value;
  }

  /// Writes `value`, which must fit: range checks belong where the value came in.
  constexpr void put(std::span<std::uint8_t> message, std::uint64_t value) const noexcept {
    WIREUP_CHECK(end_bit() <= message.size() * 8);
    WIREUP_CHECK(value <= max());
    std::size_t at = first_bit();
    unsigned left = width;
    while (left > 0) {
      const auto skipped = static_cast<unsigned>(at % 8);
      const unsigned taken = left < 8 - skipped ? left : 8 - skipped;
      const unsigned shift = 8 - skipped - taken;
      const unsigned mask = ((1U << taken) - 1) << shift;
      const auto part = static_cast<unsigned>(value >> (left - taken)) << shift;
      message[at / 8] = static_cast<std::uint8_t>((message[at / 8] & ~mask) | (part & mask));
      at += taken;
      left -= taken;
    }
  }
};

/// For static_assert: the fields lie inside `size` bytes and no two share a bit.
template <std::size_t N>
[[nodiscard]] consteval bool fields_are_disjoint(const std::array<Field, N>& fields,
                                                 std::size_t size) {
  for (std::size_t i = 0; i < N; ++i) {
    if (fields[i].width == 0 || fields[i].width > 64 || fields[i].bit > 7 ||
        fields[i].end_bit() > size * 8) {
      return false;
    }
    for (std::size_t j = i + 1; j < N; ++j) {
      if (fields[i].first_bit() < fields[j].end_bit() &&
          fields[j].first_bit() < fields[i].end_bit()) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace wireup::mad
