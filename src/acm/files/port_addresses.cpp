// SPDX-License-Identifier: BSD-3-Clause
#include "acm/files/port_addresses.hpp"

#include "acm/files/address_text.hpp"
#include "base/text.hpp"

namespace wireup::acm {
namespace {

constexpr std::size_t kMaxDevice = 63;
constexpr std::uint64_t kMaxPort = 254;

/// A P_Key as the file writes it: nothing when it was reported, else what PortAddress::pkey has.
std::optional<std::optional<PKey>> parse_pkey(std::string_view word, const Line& line,
                                              ProblemLog& log) {
  if (equal_ignoring_case(word, "default")) {
    return std::optional<PKey>{};
  }
  const auto value = parse_hexadecimal(word);
  if (!value.has_value() || *value > 0xFFFF) {
    log.add(line.number, Errc::InvalidArgument,
            "P_Key %s: use default, or hexadecimal 0x1 to 0xffff", shown(word).data());
    return std::nullopt;
  }
  const PKey pkey(static_cast<std::uint16_t>(*value));
  if (pkey.partition() == 0) {
    log.add(line.number, Errc::InvalidArgument,
            "P_Key %s is of partition 0, which is none: use default, or another one",
            shown(word).data());
    return std::nullopt;
  }
  return pkey;
}

std::optional<PortAddress> parse_line(const Line& line, IpAddresses ip_addresses, ProblemLog& log) {
  Words words(line.text);
  const std::string_view address_word = words.next();
  const std::string_view device = words.next();
  const std::string_view port_word = words.next();
  const std::string_view pkey_word = words.next();
  const auto address = parse_address(address_word, line, log);
  if (!address.has_value()) {
    return std::nullopt;
  }
  if (pkey_word.empty()) {
    log.add(line.number, Errc::InvalidArgument,
            "less than four words after %s: write 'address device port pkey'",
            shown(address_word).data());
    return std::nullopt;
  }
  if (address->type() != mad::AcmAddressType::Name && ip_addresses == IpAddresses::Refused) {
    log.add(line.number, Errc::InvalidArgument,
            "IP address %s: the interfaces have it already; take the line away, or set "
            "support_ips_in_addr_cfg 1",
            shown(address_word).data());
    return std::nullopt;
  }
  if (device.size() > kMaxDevice) {
    log.add(line.number, Errc::InvalidArgument,
            "device %s has %zu bytes, a name has at most %zu: correct it", shown(device).data(),
            device.size(), kMaxDevice);
    return std::nullopt;
  }
  const auto port = parse_decimal(port_word);
  if (!port.has_value() || *port == 0 || *port > kMaxPort) {
    log.add(line.number, Errc::InvalidArgument, "port %s: use a number from 1 to %llu",
            shown(port_word).data(), static_cast<unsigned long long>(kMaxPort));
    return std::nullopt;
  }
  const auto pkey = parse_pkey(pkey_word, line, log);
  if (!pkey.has_value() || !words.at_end(line, log)) {
    return std::nullopt;
  }
  return PortAddress{.address = *address,
                     .device = std::string(device),
                     .port = static_cast<std::uint8_t>(*port),
                     .pkey = *pkey};
}

}  // namespace

Parsed<std::vector<PortAddress>> parse_port_addresses(std::string_view text, std::string_view file,
                                                      IpAddresses ip_addresses) {
  Parsed<std::vector<PortAddress>> parsed;
  ProblemLog log(file, parsed.problems);
  LineReader lines(text);
  while (const auto line = lines.next(log)) {
    if (auto address = parse_line(*line, ip_addresses, log)) {
      parsed.value.push_back(std::move(*address));
    }
  }
  return parsed;
}

}  // namespace wireup::acm
