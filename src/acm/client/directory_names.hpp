// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace wireup::acm {

/// The names in a directory, sorted; none when it cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& directory);

/// "directory/name".
[[nodiscard]] std::string path_in(const std::string& directory, const std::string& name);

}  // namespace wireup::acm
