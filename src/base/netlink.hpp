// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.hpp"

// What all netlink messages have in common (netlink(7)): a header, and attributes of a length, a
// type and a value. In the machine's byte order.
namespace wireup::netlink {

inline constexpr std::size_t kLength = 0;
inline constexpr std::size_t kType = 4;
inline constexpr std::size_t kFlags = 6;
inline constexpr std::size_t kSequence = 8;
inline constexpr std::size_t kHeaderSize = 16;
/// Length and type of an attribute; the length counts them.
inline constexpr std::size_t kAttributeHead = 4;

/// Where what follows begins.
[[nodiscard]] constexpr std::size_t align(std::size_t size) noexcept {
  constexpr std::size_t kAlignment = 4;
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

/// An integer at an offset. One outside the bytes is a defect; check lengths of received bytes
/// before.
template <typename T>
[[nodiscard]] T load(std::span<const std::uint8_t> from, std::size_t at = 0) noexcept {
  WIREUP_CHECK(at <= from.size() && sizeof(T) <= from.size() - at);
  T value{};
  std::memcpy(&value, from.data() + at, sizeof(T));
  return value;
}

template <typename T>
void store(std::span<std::uint8_t> to, std::size_t at, T value) noexcept {
  WIREUP_CHECK(at <= to.size() && sizeof(T) <= to.size() - at);
  std::memcpy(to.data() + at, &value, sizeof(T));
}

}  // namespace wireup::netlink
