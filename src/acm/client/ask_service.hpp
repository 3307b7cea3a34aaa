// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <vector>

#include "acm/client/node_question.hpp"

namespace wireup::acm {

/// Asks the node's service, some questions at the same time. False: no service listens, and
/// `answers`, which has one place for each destination, is as it was.
[[nodiscard]] bool ask_service(const NodeQuestion& question,
                               std::span<const mad::AcmAddress> destinations,
                               std::vector<NodeAnswer>& answers);

}  // namespace wireup::acm
