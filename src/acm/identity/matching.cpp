// SPDX-License-Identifier: BSD-3-Clause
#include "acm/identity/matching.hpp"

#include <algorithm>
#include <vector>

namespace wireup::acm {
namespace {

constexpr std::size_t kIpv4InData = 12;
/// Candidates that an error names: more do not fit its text.
constexpr std::size_t kMaxNamed = 2;

bool equal(std::string_view a, std::string_view b) noexcept {
  const auto lower = [](char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::string_view first_word(std::string_view text) noexcept {
  return text.substr(0, std::min(text.find_first_of(" \t"), text.size()));
}

struct Candidate {
  Gid gid;
  std::string what;
};

/// A port that two records name counts once.
void add(std::vector<Candidate>& candidates, const Gid& gid, std::string what) {
  const bool is_known =
      std::any_of(candidates.begin(), candidates.end(),
                  [&gid](const Candidate& candidate) { return candidate.gid == gid; });
  if (!is_known) {
    candidates.push_back({gid, std::move(what)});
  }
}

Result<std::optional<Gid>> choose(std::string_view wanted,
                                  const std::vector<Candidate>& candidates) {
  if (candidates.empty()) {
    return std::nullopt;
  }
  if (candidates.size() == 1) {
    return candidates.front().gid;
  }
  std::string named;
  for (std::size_t i = 0; i < std::min(candidates.size(), kMaxNamed); ++i) {
    named += i > 0 ? ", " : "";
    named += candidates[i].what.substr(0, 30) + " (GID " + to_text(candidates[i].gid).data() + ")";
  }
  return fail(Error::make(Errc::InvalidArgument, "\"%.*s\" is %zu ports: %s%s",
                          static_cast<int>(std::min<std::size_t>(wanted.size(), 64)), wanted.data(),
                          candidates.size(), named.c_str(),
                          candidates.size() > kMaxNamed ? ", ..." : ""));
}

/// What is printable of a text from the fabric.
std::string clean(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace

Result<std::optional<Gid>> match_description(std::string_view name,
                                             std::span<const DescribedPort> ports) {
  std::vector<Candidate> whole;
  std::vector<Candidate> by_word;
  for (const DescribedPort& port : ports) {
    const std::string what =
        "\"" + clean(port.description) + "\" port " + std::to_string(port.port);
    if (equal(port.description, name)) {
      add(whole, port.gid, what);
    } else if (equal(first_word(port.description), name)) {
      add(by_word, port.gid, what);
    }
  }
  return choose(name, whole.empty() ? by_word : whole);
}

Result<std::optional<Gid>> match_service(const mad::AcmAddress& address, PKey pkey,
                                         std::span<const RegisteredService> services) {
  std::string_view name = kAddressTranslationService;
  std::array<std::uint8_t, RegisteredService::kDataSize> data{};
  const std::string wanted = value_text(address);
  switch (address.type()) {
    case mad::AcmAddressType::Name:
      name = wanted;
      break;
    case mad::AcmAddressType::Ipv4:
      std::copy_n(address.bytes().begin(), 4, data.begin() + kIpv4InData);
      break;
    case mad::AcmAddressType::Ipv6:
      std::copy_n(address.bytes().begin(), 16, data.begin());
      break;
    case mad::AcmAddressType::Gid:
    case mad::AcmAddressType::Lid:
      return std::nullopt;
  }
  const bool is_name = address.type() == mad::AcmAddressType::Name;
  std::vector<Candidate> candidates;
  for (const RegisteredService& service : services) {
    if (service.name == name && (is_name || service.data == data) && pkey.matches(service.pkey)) {
      add(candidates, service.gid, "service \"" + clean(service.name) + "\"");
    }
  }
  return choose(wanted, candidates);
}

}  // namespace wireup::acm
