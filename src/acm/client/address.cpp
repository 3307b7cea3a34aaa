// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/address.hpp"

#include "acm/files/address_text.hpp"
#include "base/text.hpp"

namespace wireup::acm {
namespace {

tl::unexpected<Error> refuse(std::string_view text, const char* wanted) {
  return fail(Error::make(Errc::InvalidArgument, "%s is not %s", shown(text).data(), wanted));
}

Result<mad::AcmAddress> read_gid(std::string_view text) {
  const auto bytes = parse_ipv6(text);
  const Gid gid = bytes.has_value() ? Gid(*bytes) : Gid();
  if (gid.is_zero() || gid.is_multicast()) {
    return refuse(text, "the GID of a port: write it like fe80::2:c903:0:1");
  }
  return mad::AcmAddress::gid(gid);
}

Result<mad::AcmAddress> read_lid(std::string_view text) {
  const auto number = parse_number(text);
  if (!number.has_value() || *number > 0xFFFF ||
      !is_unicast(Lid(static_cast<std::uint16_t>(*number)))) {
    return refuse(text, "the LID of a port: use a number from 1 to 49151");
  }
  return mad::AcmAddress::lid(Lid(static_cast<std::uint16_t>(*number)));
}

Result<mad::AcmAddress> read_ip(std::string_view text) {
  if (const auto ipv4 = parse_ipv4(text)) {
    return mad::AcmAddress::ipv4(*ipv4);
  }
  if (const auto ipv6 = parse_ipv6(text)) {
    return mad::AcmAddress::ipv6(*ipv6);
  }
  return refuse(text, "an IP address");
}

/// By the rules of the address file.
Result<mad::AcmAddress> guess(std::string_view text) {
  if (const auto ipv6 = parse_ipv6(text)) {
    const bool is_link_local = (*ipv6)[0] == 0xFE && ((*ipv6)[1] & 0xC0U) == 0x80;
    return is_link_local ? read_gid(text) : read_ip(text);
  }
  Problems problems;
  ProblemLog log("", problems);
  const auto address = parse_address(text, Line{text, 1}, log);
  if (!address.has_value()) {
    return refuse(text, "a name, an IP address or a GID");
  }
  return *address;
}

}  // namespace

Result<mad::AcmAddress> read_address(std::string_view text, AddressForm form) {
  switch (form) {
    case AddressForm::Name:
      return text.empty() ? refuse(text, "a name") : mad::AcmAddress::name(text);
    case AddressForm::Ip:
      return read_ip(text);
    case AddressForm::Gid:
      return read_gid(text);
    case AddressForm::Lid:
      return read_lid(text);
    case AddressForm::Guessed:
      break;
  }
  return text.empty() ? refuse(text, "a name, an IP address or a GID") : guess(text);
}

}  // namespace wireup::acm
