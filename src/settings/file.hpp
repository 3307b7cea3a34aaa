// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "settings/table.hpp"

namespace wireup::settings {

/// A line of the file that sets something.
struct FileValue {
  Id id = Id::Device;
  /// As normalise() made it.
  std::string text;
  std::size_t line = 0;
  friend bool operator==(const FileValue&, const FileValue&) noexcept = default;
};

/// Reads wireup.conf: lines "name = value". A line that begins with '#', and what stands behind a
/// blank and a '#', is a remark. Lines with an unknown name, without '=', with a value that the
/// setting cannot have, or that set what another line has set already are problems and are not
/// used. `file` is its name for the messages. Pure; any bytes.
[[nodiscard]] Parsed<std::vector<FileValue>> parse_file(std::string_view text,
                                                        std::string_view file);

}  // namespace wireup::settings
