// SPDX-License-Identifier: BSD-3-Clause
#include "api/address.hpp"

#include <optional>
#include <string>

#include "acm/files/address_text.hpp"

namespace wireup::api {
namespace {

/// The text behind the prefix, if it has it.
std::optional<std::string_view> behind(std::string_view prefix, std::string_view text) noexcept {
  return text.starts_with(prefix) ? std::optional(text.substr(prefix.size())) : std::nullopt;
}

std::optional<mad::AcmAddress> read_gid(std::string_view text) noexcept {
  const auto bytes = acm::parse_ipv6(text);
  if (!bytes.has_value() || Gid(*bytes).is_zero() || Gid(*bytes).is_multicast()) {
    return std::nullopt;
  }
  return mad::AcmAddress::gid(Gid(*bytes));
}

std::optional<mad::AcmAddress> read_lid(std::string_view text) noexcept {
  const auto number = acm::parse_decimal(text);
  const auto lid = number.has_value() ? Lid::make(*number) : std::nullopt;
  return lid.has_value() && is_unicast(*lid) ? std::optional(mad::AcmAddress::lid(*lid))
                                             : std::nullopt;
}

std::optional<mad::AcmAddress> read_ip(std::string_view text) noexcept {
  if (const auto ipv4 = acm::parse_ipv4(text)) {
    return mad::AcmAddress::ipv4(*ipv4);
  }
  const auto ipv6 = acm::parse_ipv6(text);
  return ipv6.has_value() ? std::optional(mad::AcmAddress::ipv6(*ipv6)) : std::nullopt;
}

std::optional<mad::AcmAddress> read_name(std::string_view text) noexcept {
  const auto name = mad::AcmAddress::name(text);
  return name ? std::optional(*name) : std::nullopt;
}

std::optional<mad::AcmAddress> read_any(std::string_view text) noexcept {
  if (const auto gid = behind("gid:", text)) {
    return read_gid(*gid);
  }
  if (const auto lid = behind("lid:", text)) {
    return read_lid(*lid);
  }
  if (const auto ip = behind("ip:", text)) {
    return read_ip(*ip);
  }
  if (const auto name = behind("name:", text)) {
    return read_name(*name);
  }
  return std::nullopt;
}

}  // namespace

Result<mad::AcmAddress> parse_target(std::string_view text) {
  if (const auto address = read_any(text)) {
    return *address;
  }
  return fail(
      Error::make(Errc::InvalidArgument,
                  "wireup_resolve_address: '%.80s' is no address of a port; write name:NODE, "
                  "ip:ADDRESS, gid:GID or lid:NUMBER",
                  std::string(text).c_str()));
}

}  // namespace wireup::api
