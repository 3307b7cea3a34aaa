// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "base/result.hpp"

namespace wireup::acm {

/// The whole of a file. Errc::NotFound: there is none. Errc::NoPermission: it cannot be read, for
/// whatever reason the system gives.
[[nodiscard]] Result<std::string> read_text_file(const std::string& path);

}  // namespace wireup::acm
