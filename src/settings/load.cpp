// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>

#include "base/text_file.hpp"
#include "settings/settings.hpp"

namespace wireup::settings {

Loaded load() {
  const Environment environment = [](const char* name) -> const char* { return std::getenv(name); };
  const char* named = environment(kFileVariable);
  const bool is_named = named != nullptr && *named != '\0';
  const std::string file = is_named ? named : std::string(kUsualFile);
  auto text = read_text_file(file);
  if (text) {
    return layer(*text, file, environment);
  }
  Loaded loaded = layer("", "", environment);
  if (is_named || !text.error().is(Errc::NotFound)) {
    loaded.problems.insert(loaded.problems.begin(), text.error());
  }
  return loaded;
}

}  // namespace wireup::settings
