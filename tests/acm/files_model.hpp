// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "acm/files/hosts.hpp"
#include "acm/files/options.hpp"
#include "acm/files/path_dump.hpp"
#include "acm/files/port_addresses.hpp"
#include "base/check.hpp"

namespace wireup::acm::test {

// What holds for the parsers whatever the text is. A violation ends the program (WIREUP_CHECK), so
// that tests and fuzz targets can share this.

/// Every text begins with the file and a line, is printable, and was not cut.
inline void check_problems(const Problems& problems, std::string_view file) {
  WIREUP_CHECK(problems.first.size() == std::min(problems.count, Problems::kMaxKept));
  for (const Error& error : problems.first) {
    std::string_view text = error.what();
    WIREUP_CHECK(text.size() + 1 < Error::kDetailSize);
    WIREUP_CHECK(
        std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }));
    WIREUP_CHECK(text.starts_with(file));
    text.remove_prefix(file.size());
    WIREUP_CHECK(text.starts_with(':'));
    text.remove_prefix(1);
    const std::size_t digits = text.find_first_not_of("0123456789");
    WIREUP_CHECK(digits > 0 && text.substr(std::min(digits, text.size())).starts_with(": "));
  }
}

inline std::string word_of(const mad::AcmAddress& address) {
  const auto& bytes = address.bytes();
  std::string word;
  switch (address.type()) {
    case mad::AcmAddressType::Name:
      return {bytes.begin(), std::find(bytes.begin(), bytes.end(), 0)};
    case mad::AcmAddressType::Ipv4:
      for (std::size_t i = 0; i < 4; ++i) {
        word += (i > 0 ? "." : "") + std::to_string(bytes[i]);
      }
      return word;
    case mad::AcmAddressType::Ipv6: {
      Gid::Bytes first{};
      std::copy_n(bytes.begin(), first.size(), first.begin());
      return to_text(Gid(first)).data();
    }
    case mad::AcmAddressType::Gid:
    case mad::AcmAddressType::Lid:
      break;
  }
  WIREUP_CHECK(false);
  return word;
}

/// Runs every parser over `text`. What was good, written again, is read as the same. Returns how
/// many values were good.
inline std::size_t check_any_text(std::string_view text) {
  // The longest name that is shown whole leaves least room for the rest.
  const std::string file(ProblemLog::kMaxFileName, 'f');
  std::size_t good = 0;

  const auto hosts = parse_hosts(text, file);
  check_problems(hosts.problems, file);
  // What was a name in the middle of a file may begin with a byte order mark, which at the file's
  // beginning is none of the text: an empty line comes first.
  const std::string beginning = "\n";
  std::string again = beginning;
  for (const HostEntry& host : hosts.value) {
    again += word_of(host.address) + " " + to_text(host.gid).data() + "\n";
  }
  WIREUP_CHECK(parse_hosts(again, file).value == hosts.value);
  good += hosts.value.size();

  const auto addresses = parse_port_addresses(text, file, IpAddresses::Allowed);
  check_problems(addresses.problems, file);
  again = beginning;
  for (const PortAddress& address : addresses.value) {
    std::array<char, 8> pkey{"default"};
    if (address.pkey.has_value()) {
      std::snprintf(pkey.data(), pkey.size(), "0x%x", address.pkey->value());
    }
    again += word_of(address.address) + " " + address.device + " " + std::to_string(address.port) +
             " " + pkey.data() + "\n";
  }
  WIREUP_CHECK(parse_port_addresses(again, file, IpAddresses::Allowed).value == addresses.value);
  good += addresses.value.size();
  check_problems(parse_port_addresses(text, file, IpAddresses::Refused).problems, file);

  const auto options = parse_options(text, file);
  check_problems(options.problems, file);
  Config config;
  apply(options.value, config);
  WIREUP_CHECK(validate(config).has_value());
  good += options.value.ignored.size();

  const DumpedPort own{.gid = Gid::make(0xFE80000000000000, Guid(0x21)),
                       .base_lid = Lid(2),
                       .pkey = PKey(0xFFFF),
                       .packet_lifetime = 18,
                       .lmc = 1};
  const auto is_own = [&](Lid lid) { return lid == Lid(2) || lid == Lid(3); };
  const auto dump = parse_path_dump(text, file, own);
  check_problems(dump.problems, file);
  Lid last;
  for (const DumpedPath& path : dump.value.paths) {
    WIREUP_CHECK(last < path.outbound.dlid && is_own(path.outbound.slid));
    WIREUP_CHECK(path.outbound.sgid == own.gid && !path.outbound.dgid.interface_id().is_zero());
    if (path.inbound.has_value()) {
      WIREUP_CHECK(path.inbound->dgid == own.gid && path.inbound->dlid == path.outbound.slid);
      WIREUP_CHECK(path.inbound->sgid == path.outbound.dgid);
      WIREUP_CHECK(path.inbound->slid == path.outbound.dlid);
    }
    last = path.outbound.dlid;
  }
  WIREUP_CHECK(dump.value.paths.size() <= 2 * dump.value.ports);
  return good + dump.value.paths.size();
}

}  // namespace wireup::acm::test
