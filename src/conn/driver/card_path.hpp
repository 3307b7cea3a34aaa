// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "mad/path_record.hpp"
#include "pmix/engine/card.hpp"
#include "verbs/port_info.hpp"

namespace wireup::conn {

// The last resort where nobody on the node can say what the fabric wants: a path put together from
// what the two ends say of themselves. On most fabrics it is the right one; where the SL or the MTU
// differs by destination nobody has verified that it is.

/// Is it a failure to find a path, past which a card may help? Not one of this port or program.
[[nodiscard]] bool may_be_helped_by_card(const Error& error) noexcept;

/// From `own` to a port of a peer's card, in the partition `pkey` of our table: the card's base
/// LID, SL 0, the smaller MTU and the slower rate of the two ports. Errc::PathUnresolved: the ends
/// are in different subnets or partitions, or have no LIDs.
[[nodiscard]] Result<mad::PathRecord> path_from_card(const verbs::PortInfo& own, PKey pkey,
                                                     const pmix::CardPort& peer);

}  // namespace wireup::conn
