// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "acm/engine/port_identity.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// The paths between two ports that have several LIDs each, when one of them is known from a
/// multicast: this one first, then one for each further LID, from the port's own with the same
/// number. A subnet manager gives all adapters of a fabric the same number of LIDs (LMC), and a
/// base LID is a multiple of that; so the peer's LIDs follow from one of them and the port's LMC.
[[nodiscard]] std::vector<mad::PathRecord> lid_paths(const mad::PathRecord& known,
                                                     const PortIdentity& port);

}  // namespace wireup::acm
