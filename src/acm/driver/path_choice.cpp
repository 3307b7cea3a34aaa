// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/path_choice.hpp"

#include <optional>

#include "acm/engine/lid_paths.hpp"

namespace wireup::acm {

void store_learned(CacheWriter& cache, const PathKey& plain, const mad::PathRecord& record,
                   PathOrigin origin, const PortIdentity& port, Instant now) {
  // What the SA says of one path says nothing of the others.
  if (origin == PathOrigin::AcmMulticast && port.lmc > 0) {
    cache.store_paths(plain, lid_paths(record, port), origin, now);
  } else {
    cache.store(plain, record, origin, now);
  }
}

Result<ResolvedPath> choose_path(CacheWriter& cache, const PathKey& plain, const PathKey& wanted,
                                 const ResolvedPath& first, Instant now) {
  std::optional<ResolvedPath> path = first;
  if (wanted.number != 0 || wanted.direction != PathDirection::Outbound) {
    PathKey numbered = plain;
    numbered.number = wanted.number;
    numbered.direction = wanted.direction;
    path = cache.lookup(numbered, now);
  }
  const char* direction = wanted.direction == PathDirection::Outbound ? "to" : "from";
  if (!path.has_value()) {
    return fail(Error::make(Errc::PathUnresolved,
                            "path number %u %s GID %s is not known; numbers begin at 0, and there "
                            "are as many as the ports have LIDs",
                            wanted.number, direction, to_text(wanted.dgid).data()));
  }
  if (wanted.sl.value_or(path->record.sl) != path->record.sl) {
    return fail(Error::make(
        Errc::PathUnresolved, "SL %u was asked for %s GID %s, but the known paths have SL %u",
        wanted.sl->value(), direction, to_text(wanted.dgid).data(), path->record.sl.value()));
  }
  // Other numbers and the way back have their entries already, or follow from one.
  const bool is_first = wanted.number == 0 && wanted.direction == PathDirection::Outbound;
  if (is_first || wanted.sl.has_value() || !wanted.service_id.is_zero()) {
    cache.store(wanted, path->record, path->origin, now);
  }
  return *path;
}

}  // namespace wireup::acm
