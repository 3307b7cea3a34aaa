// SPDX-License-Identifier: BSD-3-Clause
#include "acm/identity/route_address.hpp"

#include <algorithm>
#include <array>

namespace wireup::acm {
namespace {

constexpr std::uint8_t kFamilyIpv4 = 2;
constexpr std::uint8_t kFamilyIpv6 = 10;

template <std::size_t N>
std::array<std::uint8_t, N> array_of(std::span<const std::uint8_t> bytes) noexcept {
  std::array<std::uint8_t, N> array{};
  std::copy_n(bytes.begin(), N, array.begin());
  return array;
}

}  // namespace

std::optional<mad::AcmAddress> route_address(std::uint8_t family,
                                             std::span<const std::uint8_t> bytes) noexcept {
  if (family == kFamilyIpv4 && bytes.size() == 4) {
    return mad::AcmAddress::ipv4(array_of<4>(bytes));
  }
  if (family == kFamilyIpv6 && bytes.size() == 16) {
    return mad::AcmAddress::ipv6(array_of<16>(bytes));
  }
  return std::nullopt;
}

}  // namespace wireup::acm
