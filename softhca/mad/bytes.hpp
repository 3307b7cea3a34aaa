// SPDX-License-Identifier: BSD-3-Clause
// Big-endian integers at byte offsets. Callers have checked the length; offsets are constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca {

inline std::uint8_t get8(std::span<const std::uint8_t> bytes, std::size_t at) {
  return bytes[at];
}

inline std::uint16_t get16(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

inline std::uint32_t get32(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint32_t>(get16(bytes, at)) << 16 | get16(bytes, at + 2);
}

inline std::uint64_t get64(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint64_t>(get32(bytes, at)) << 32 | get32(bytes, at + 4);
}

inline void put16(std::span<std::uint8_t> bytes, std::size_t at, std::uint16_t value) {
  bytes[at] = static_cast<std::uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<std::uint8_t>(value & 0xFF);
}

inline void put32(std::span<std::uint8_t> bytes, std::size_t at, std::uint32_t value) {
  put16(bytes, at, static_cast<std::uint16_t>(value >> 16));
  put16(bytes, at + 2, static_cast<std::uint16_t>(value & 0xFFFF));
}

inline void put64(std::span<std::uint8_t> bytes, std::size_t at, std::uint64_t value) {
  put32(bytes, at, static_cast<std::uint32_t>(value >> 32));
  put32(bytes, at + 4, static_cast<std::uint32_t>(value & 0xFFFFFFFF));
}

}  // namespace softhca
