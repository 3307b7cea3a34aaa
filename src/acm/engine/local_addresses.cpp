// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/local_addresses.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.hpp"

namespace wireup::acm {
namespace {

/// ASCII only, whatever the locale.
constexpr char lower(std::uint8_t byte) noexcept {
  return static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte);
}

mad::AcmAddress fold(const mad::AcmAddress& address) noexcept {
  if (address.type() != mad::AcmAddressType::Name) {
    return address;
  }
  std::array<char, mad::AcmAddress::kSize> text{};
  std::transform(address.bytes().begin(), address.bytes().end(), text.begin(), lower);
  const auto end = std::find(text.begin(), text.end(), '\0');
  const auto folded = mad::AcmAddress::name(
      std::string_view(text.data(), static_cast<std::size_t>(end - text.begin())));
  WIREUP_CHECK(folded.has_value());
  return *folded;
}

}  // namespace

LocalAddresses::LocalAddresses(const std::vector<mad::AcmAddress>& given) {
  std::transform(given.begin(), given.end(), std::back_inserter(given_), fold);
  std::sort(given_.begin(), given_.end());
}

bool LocalAddresses::contains(const mad::AcmAddress& address,
                              const PortIdentity& port) const noexcept {
  if (const auto gid = address.as_gid(); gid == port.gid) {
    return true;
  }
  if (const auto lid = address.as_lid(); lid.has_value() && has_lid(port, *lid)) {
    return true;
  }
  return !given_.empty() && std::binary_search(given_.begin(), given_.end(), fold(address));
}

}  // namespace wireup::acm
