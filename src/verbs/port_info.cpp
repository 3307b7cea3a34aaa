// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/port_info.hpp"

#include <algorithm>
#include <cstdio>

namespace wireup::verbs {

std::optional<std::uint16_t> PortInfo::pkey_index(PKey pkey) const noexcept {
  if (pkey.partition() == 0) {
    return std::nullopt;  // an unused entry is not a P_Key
  }
  std::optional<std::uint16_t> same_partition;
  for (std::size_t i = 0; i < pkeys.size(); ++i) {
    const auto index = static_cast<std::uint16_t>(i);
    if (pkeys[i] == pkey) {
      return index;
    }
    if (!same_partition.has_value() && pkeys[i].partition() == pkey.partition()) {
      same_partition = index;
    }
  }
  return same_partition;
}

Result<PKey> PortInfo::table_pkey(PKey wanted) const {
  const auto index = pkey_index(wanted);
  if (!index.has_value()) {
    return fail(Error::make(Errc::InvalidArgument, "%s has no P_Key 0x%04x in its table",
                            name().data(), wanted.value()));
  }
  return pkeys[*index];
}

std::optional<std::uint16_t> PortInfo::usual_pkey_index() const noexcept {
  const auto is_used = [](PKey pkey) { return pkey.partition() != 0; };
  const auto is_full = [&](PKey pkey) { return is_used(pkey) && pkey.is_full_member(); };
  auto found = std::find_if(pkeys.begin(), pkeys.end(), is_full);
  if (found == pkeys.end()) {
    found = std::find_if(pkeys.begin(), pkeys.end(), is_used);
  }
  return found == pkeys.end() ? std::nullopt
                              : std::optional(static_cast<std::uint16_t>(found - pkeys.begin()));
}

std::array<char, 96> PortInfo::name() const noexcept {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "%.70s port %u", device.c_str(),
                static_cast<unsigned>(port));
  return text;
}

}  // namespace wireup::verbs
