// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.hpp"

namespace wireup::cm {

/// The starting PSN of a connection whose carrier does not carry one (the kernel's CM makes up its
/// own and tells it nobody): both ends work it out from what a REQ or REP says of its sender, its
/// queue pair and its private data, where zeros at the end do not count. Who sends such a message
/// puts this into its starting_psn. Differs from connection to connection when the private data do.
[[nodiscard]] constexpr Psn derived_psn(Qpn qpn,
                                        std::span<const std::uint8_t> private_data) noexcept {
  std::size_t size = private_data.size();
  while (size > 0 && private_data[size - 1] == 0) {
    --size;
  }
  // 64-bit FNV-1a, folded.
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  const auto mix = [&hash](std::uint32_t byte) {
    hash ^= byte & 0xFFU;
    hash *= 0x100000001B3ULL;
  };
  mix(qpn.value() >> 16U);
  mix(qpn.value() >> 8U);
  mix(qpn.value());
  for (std::size_t i = 0; i < size; ++i) {
    mix(private_data[i]);
  }
  return Psn(static_cast<std::uint32_t>((hash ^ hash >> 24U ^ hash >> 48U) & Psn::kMax));
}

}  // namespace wireup::cm
