// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "acm/client/node_question.hpp"
#include "targets.hpp"

namespace wireup::tool {

// What `wireup resolve` prints of one target. Pure.

/// One line without its end.
[[nodiscard]] std::string resolve_line(const Target& target, const acm::NodePath& path);
/// "node9: service on softhca0 port 1: ...": which step failed, where and why.
[[nodiscard]] std::string failure_line(const Target& target, const acm::NodeRefusal& refusal);
[[nodiscard]] nlohmann::ordered_json resolve_json(const Target& target,
                                                  const acm::NodeAnswer& answer);

}  // namespace wireup::tool
