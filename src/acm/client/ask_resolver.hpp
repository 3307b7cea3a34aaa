// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <vector>

#include "acm/client/node_places.hpp"
#include "acm/engine/path.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"
#include "verbs/port_info.hpp"

namespace wireup::acm {

/// Asks the process that is the node's resolver for this user, this port and partition, as its
/// ranks do; one answer for each destination. A LID that its cache has is not asked for. Blocks
/// until `deadline` at most.
[[nodiscard]] std::vector<Result<ResolvedPath>> ask_resolver(
    const NodePlaces& places, const verbs::PortInfo& port, PKey pkey,
    std::span<const mad::AcmAddress> destinations, Instant deadline);

}  // namespace wireup::acm
