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
  const auto index = port.usual_pkey_index();
  if (!index.has_value()) {
    return fail(Error::make(Errc::NoDevice, "%s has an empty P_Key table", port.name().data()));
  }
  return port.pkeys[*index];
}

}  // namespace wireup::conn
