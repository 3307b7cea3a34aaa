// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "path_check.hpp"

namespace wireup::tool {

// What `wireup verify` prints. Pure.

/// The paths of one port and partition.
struct VerifyReport {
  /// "softhca0 port 1".
  std::string place;
  std::string cache;
  PKey pkey;
  std::vector<CheckedPath> paths;
  Verdict verdict;
};

/// A line for each path that is not as the SA says (all, with `is_all`), and the verdict. The last
/// line has no end.
[[nodiscard]] std::string verify_text(const VerifyReport& report, bool is_all);
[[nodiscard]] nlohmann::ordered_json verify_json(const VerifyReport& report);

}  // namespace wireup::tool
