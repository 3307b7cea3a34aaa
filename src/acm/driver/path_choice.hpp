// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "acm/cache/node_cache.hpp"
#include "acm/engine/path.hpp"
#include "acm/engine/port_identity.hpp"
#include "base/result.hpp"

namespace wireup::acm {

/// Stores what was learned about a peer: the path, and those by the other LIDs of the two ports
/// where they follow from it.
void store_learned(CacheWriter& cache, const PathKey& plain, const mad::PathRecord& record,
                   PathOrigin origin, const PortIdentity& port, Instant now);

/// What to answer to who asked for `wanted`, now that `first` is known, the path of the same ports
/// without a demand (`plain`); the cache has the paths of other numbers and of the way back. The
/// answer is in the cache afterwards, under the key that was asked for.
///
/// Errc::PathUnresolved: the path has another SL than was asked for, or there is none of that
/// number or direction.
[[nodiscard]] Result<ResolvedPath> choose_path(CacheWriter& cache, const PathKey& plain,
                                               const PathKey& wanted, const ResolvedPath& first,
                                               Instant now);

}  // namespace wireup::acm
