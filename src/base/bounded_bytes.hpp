// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace wireup {

/// Up to `Capacity` bytes inside the object, for private data and the like. A value; bytes behind
/// size() are zero, so comparison is by content.
template <std::size_t Capacity>
class BoundedBytes {
 public:
  static constexpr std::size_t kCapacity = Capacity;

  constexpr BoundedBytes() noexcept = default;
  /// Nothing when `bytes` does not fit.
  [[nodiscard]] static constexpr std::optional<BoundedBytes> make(
      std::span<const std::uint8_t> bytes) noexcept {
    if (bytes.size() > Capacity) {
      return std::nullopt;
    }
    BoundedBytes result;
    std::copy(bytes.begin(), bytes.end(), result.bytes_.begin());
    result.size_ = bytes.size();
    return result;
  }

  [[nodiscard]] constexpr std::span<const std::uint8_t> span() const noexcept {
    return {bytes_.data(), size_};
  }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  friend constexpr bool operator==(const BoundedBytes&, const BoundedBytes&) noexcept = default;

 private:
  std::array<std::uint8_t, Capacity> bytes_{};
  std::size_t size_ = 0;
};

}  // namespace wireup
