// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

// What a process asks the fabric itself on a node without a service. Each call opens the port,
// asks, and closes it again; they block until `deadline` at most.

/// By ACM multicast, as the node's resolver for the time of the question. `source` chooses the
/// port; without one the system's routes do (IP addresses), or the first ACTIVE port. Errc::Busy: a
/// rank of a job is the node's resolver, and that answers no such questions.
[[nodiscard]] Result<mad::PathRecord> ask_fabric(const std::optional<mad::AcmAddress>& source,
                                                 const mad::AcmAddress& destination,
                                                 Instant deadline);

/// By a query to the SA of the port that the record's source names: what is not 0 in `path` is
/// asked for.
[[nodiscard]] Result<mad::PathRecord> ask_subnet(const mad::PathRecord& path, Instant deadline);

}  // namespace wireup::acm
