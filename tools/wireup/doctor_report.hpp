// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "doctor_findings.hpp"

namespace wireup::tool {

// What `wireup doctor` prints. Pure.

/// Ends with a newline.
[[nodiscard]] std::string doctor_text(const Findings& findings,
                                      const std::vector<Complaint>& complaints);
[[nodiscard]] nlohmann::ordered_json doctor_json(const Findings& findings,
                                                 const std::vector<Complaint>& complaints);

}  // namespace wireup::tool
