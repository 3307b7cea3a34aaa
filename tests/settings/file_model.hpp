// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <set>
#include <string_view>

#include "base/check.hpp"
#include "settings/file.hpp"

namespace wireup::settings::test {

/// What holds for the parser whatever the text is. A violation ends the program, so that the tests
/// and the fuzz target share this.
inline void check_settings_file(std::string_view text) {
  const auto parsed = parse_file(text, "f");
  WIREUP_CHECK(parsed == parse_file(text, "f"));
  std::set<Id> seen;
  for (const FileValue& value : parsed.value) {
    WIREUP_CHECK(seen.insert(value.id).second);
    const auto again = normalise(spec_of(value.id), value.text);
    WIREUP_CHECK(again.has_value() && *again == value.text);
    WIREUP_CHECK(value.line >= 1);
  }
  WIREUP_CHECK(parsed.problems.first.size() == std::min(parsed.problems.count, Problems::kMaxKept));
  for (const Error& error : parsed.problems.first) {
    const std::string_view what = error.what();
    WIREUP_CHECK(what.starts_with("f:"));
    WIREUP_CHECK(
        std::all_of(what.begin(), what.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  }
}

}  // namespace wireup::settings::test
