// SPDX-License-Identifier: BSD-3-Clause
#include "conn/driver/options.hpp"

#include <algorithm>

namespace wireup::conn {

std::uint32_t cq_entries_for(std::uint32_t peers, std::uint32_t depth) noexcept {
  const std::uint64_t wanted = std::uint64_t{peers} * depth;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, 256, kMaxCqEntries));
}

QKey job_qkey(std::uint64_t job) noexcept {
  const auto folded = static_cast<std::uint32_t>((job ^ job >> 32U) & 0x7FFFFFFFU);
  return QKey(folded != 0 ? folded : 1);
}

Result<PKey> choose_pkey(const verbs::PortInfo& port, std::optional<PKey> wanted) {
  if (wanted.has_value()) {
    return port.table_pkey(*wanted);
  }
  const auto is_used = [](PKey pkey) { return pkey.partition() != 0; };
  const auto is_full = [&](PKey pkey) { return is_used(pkey) && pkey.is_full_member(); };
  auto found = std::find_if(port.pkeys.begin(), port.pkeys.end(), is_full);
  if (found == port.pkeys.end()) {
    found = std::find_if(port.pkeys.begin(), port.pkeys.end(), is_used);
  }
  if (found == port.pkeys.end()) {
    return fail(Error::make(Errc::NoDevice, "%s has an empty P_Key table", port.name().data()));
  }
  return *found;
}

}  // namespace wireup::conn
