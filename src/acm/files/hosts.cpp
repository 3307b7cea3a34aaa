// SPDX-License-Identifier: BSD-3-Clause
#include "acm/files/hosts.hpp"

#include "acm/files/address_text.hpp"
#include "base/text.hpp"

namespace wireup::acm {
namespace {

std::optional<Gid> parse_gid(std::string_view word, const Line& line, ProblemLog& log) {
  const auto bytes = parse_ipv6(word);
  if (!bytes.has_value()) {
    log.add(line.number, Errc::InvalidArgument,
            "%s is no GID: write it like an IPv6 address, fe80::2:c903:0:1", shown(word).data());
    return std::nullopt;
  }
  const Gid gid(*bytes);
  if (gid.is_zero() || gid.is_multicast()) {
    log.add(line.number, Errc::InvalidArgument,
            "%s is the GID of no port: use that of the port that has the address",
            shown(word).data());
    return std::nullopt;
  }
  return gid;
}

std::optional<HostEntry> parse_line(const Line& line, ProblemLog& log) {
  Words words(line.text);
  const std::string_view address_word = words.next();
  const std::string_view gid_word = words.next();
  const auto address = parse_address(address_word, line, log);
  if (!address.has_value()) {
    return std::nullopt;
  }
  if (gid_word.empty()) {
    log.add(line.number, Errc::InvalidArgument, "%s without a GID: write 'address GID'",
            shown(address_word).data());
    return std::nullopt;
  }
  const auto gid = parse_gid(gid_word, line, log);
  if (!gid.has_value() || !words.at_end(line, log)) {
    return std::nullopt;
  }
  return HostEntry{.address = *address, .gid = *gid};
}

}  // namespace

Parsed<std::vector<HostEntry>> parse_hosts(std::string_view text, std::string_view file) {
  Parsed<std::vector<HostEntry>> parsed;
  ProblemLog log(file, parsed.problems);
  LineReader lines(text);
  while (const auto line = lines.next(log)) {
    if (const auto entry = parse_line(*line, log)) {
      parsed.value.push_back(*entry);
    }
  }
  return parsed;
}

}  // namespace wireup::acm
