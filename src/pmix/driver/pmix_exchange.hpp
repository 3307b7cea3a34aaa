// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <memory>

#include "base/result.hpp"
#include "base/time.hpp"
#include "pmix/driver/exchange.hpp"

namespace wireup::pmix {

struct PmixOptions {
  /// Bound of open_pmix_exchange().
  Duration open_limit = std::chrono::seconds(10);
  /// True: publish() starts a background fence that brings all cards to all nodes; every rank of
  /// the job has to open an exchange. False: cards are fetched one by one from the peer's node, and
  /// only the ranks that talk need one; a card can be had as long as a rank of the job is alive on
  /// its node, so whoever is still to be looked up must not leave.
  bool collect = true;
};

/// Opens the exchange over the PMIx server of the launcher. The first call of a process starts the
/// service thread "wireup-pmix" and takes a PMIx reference; both are kept until the process exits,
/// since PMIx cannot be initialised again after its count went down to zero. The reference is given
/// back by an exit handler: a process that leaves by _exit() is reported by the launcher as one
/// that did not finalize.
/// Contexts are matched between the ranks by their ordinal: the n-th exchange of a process talks to
/// the n-th of its peers.
/// NoPmix when no server answers (not started by a launcher with PMIx), Timeout when it does not
/// answer within the limit.
[[nodiscard]] Result<std::unique_ptr<Exchange>> open_pmix_exchange(const PmixOptions& options);

}  // namespace wireup::pmix
