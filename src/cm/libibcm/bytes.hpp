// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bounded_bytes.hpp"
#include "base/result.hpp"

namespace wireup::cm::ibcm {

/// A program's pointer and length; a null pointer has no bytes, whatever the length says.
[[nodiscard]] inline std::span<const std::uint8_t> span_of(const void* bytes,
                                                           std::uint8_t length) noexcept {
  if (bytes == nullptr) {
    return {};
  }
  return {static_cast<const std::uint8_t*>(bytes), length};
}

/// Errc::InvalidArgument: there are more than `Capacity`.
template <std::size_t Capacity>
[[nodiscard]] Result<BoundedBytes<Capacity>> bounded(const char* what,
                                                     std::span<const std::uint8_t> bytes) noexcept {
  auto kept = BoundedBytes<Capacity>::make(bytes);
  if (!kept.has_value()) {
    return fail(Error::make(Errc::InvalidArgument, "%s: %zu bytes, at most %zu", what, bytes.size(),
                            Capacity));
  }
  return *kept;
}

}  // namespace wireup::cm::ibcm
