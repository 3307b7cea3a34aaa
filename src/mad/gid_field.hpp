// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "mad/field.hpp"

namespace wireup::mad {

/// A GID at a byte offset. It is wider than a Field, so the tables name its two halves.
[[nodiscard]] constexpr Field gid_half(std::size_t byte, std::size_t half) noexcept {
  return Field{byte + 8 * half, 0, 64};
}

[[nodiscard]] constexpr Gid load_gid(std::span<const std::uint8_t> from,
                                     std::size_t byte) noexcept {
  WIREUP_CHECK(from.size() >= Gid::kSize && byte <= from.size() - Gid::kSize);
  Gid::Bytes bytes{};
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(byte), Gid::kSize, bytes.begin());
  return Gid(bytes);
}

constexpr void store_gid(const Gid& gid, std::span<std::uint8_t> to, std::size_t byte) noexcept {
  WIREUP_CHECK(to.size() >= Gid::kSize && byte <= to.size() - Gid::kSize);
  std::copy(gid.bytes().begin(), gid.bytes().end(), to.begin() + static_cast<std::ptrdiff_t>(byte));
}

}  // namespace wireup::mad
