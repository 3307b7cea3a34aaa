// SPDX-License-Identifier: BSD-3-Clause
#include "api/address.hpp"

#include <array>
#include <string>
#include <utility>

#include "acm/client/address.hpp"

namespace wireup::api {
namespace {

constexpr std::array<std::pair<std::string_view, acm::AddressForm>, 4> kForms{{
    {"name:", acm::AddressForm::Name},
    {"ip:", acm::AddressForm::Ip},
    {"gid:", acm::AddressForm::Gid},
    {"lid:", acm::AddressForm::Lid},
}};

}  // namespace

Result<mad::AcmAddress> parse_target(std::string_view text) {
  for (const auto& [prefix, form] : kForms) {
    if (!text.starts_with(prefix)) {
      continue;
    }
    auto address = acm::read_address(text.substr(prefix.size()), form);
    if (!address) {
      return fail(Error::make(Errc::InvalidArgument, "wireup_resolve_address: %s",
                              std::string(address.error().what()).c_str()));
    }
    return address;
  }
  return fail(
      Error::make(Errc::InvalidArgument,
                  "wireup_resolve_address: '%.80s' is no address of a port; write name:NODE, "
                  "ip:ADDRESS, gid:GID or lid:NUMBER",
                  std::string(text).c_str()));
}

}  // namespace wireup::api
