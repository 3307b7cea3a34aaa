// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/lid_paths.hpp"

#include <cstdint>

namespace wireup::acm {
namespace {

/// The LID `steps` after this one among the LIDs of its port, going round.
Lid lid_after(Lid lid, unsigned steps, unsigned lids) noexcept {
  const unsigned base = lid.value() & ~(lids - 1);
  return Lid(static_cast<std::uint16_t>(base | ((lid.value() + steps) & (lids - 1))));
}

}  // namespace

std::vector<mad::PathRecord> lid_paths(const mad::PathRecord& known, const PortIdentity& port) {
  const unsigned lids = 1U << port.lmc;
  std::vector<mad::PathRecord> paths{known};
  for (unsigned steps = 1; steps < lids; ++steps) {
    mad::PathRecord path = known;
    path.slid = lid_after(known.slid, steps, lids);
    path.dlid = lid_after(known.dlid, steps, lids);
    if (!is_unicast(path.slid) || !is_unicast(path.dlid)) {
      return {known};
    }
    paths.push_back(path);
  }
  return paths;
}

}  // namespace wireup::acm
