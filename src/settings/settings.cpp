// SPDX-License-Identifier: BSD-3-Clause
#include "settings/settings.hpp"

#include <utility>

#include "base/text.hpp"
#include "settings/file.hpp"

namespace wireup::settings {

Settings::Settings() {
  for (const Spec& spec : table()) {
    values_[static_cast<std::size_t>(spec.id)].text = std::string(spec.usual);
  }
}

Result<> Settings::set(Id id, std::string_view text, Origin origin, std::string place) {
  auto value = normalise(spec_of(id), text);
  if (!value) {
    const std::string_view why = value.error().what();
    return fail(Error::make(Errc::InvalidArgument, "%s: %.*s", place.c_str(),
                            static_cast<int>(why.size()), why.data()));
  }
  values_[static_cast<std::size_t>(id)] = {std::move(*value), origin, std::move(place)};
  return {};
}

std::optional<wireup::PKey> Settings::pkey() const noexcept {
  const auto number = parse_number(value(Id::PKey).text);
  return number.has_value() ? std::optional(wireup::PKey(static_cast<std::uint16_t>(*number)))
                            : std::nullopt;
}

std::vector<std::string> Settings::path_sources() const {
  std::vector<std::string> sources;
  for (std::string_view rest = value(Id::PathSources).text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    sources.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return sources;
}

std::string Settings::runtime_directory(std::uint32_t uid) const {
  std::string path = value(Id::RuntimeDirectory).text;
  const std::string number = std::to_string(uid);
  for (std::size_t at = path.find("%u"); at != std::string::npos; at = path.find("%u", at)) {
    path.replace(at, 2, number);
  }
  return path;
}

std::uint32_t Settings::cache_entries() const noexcept {
  // normalise() let only numbers within 32 bits in.
  return static_cast<std::uint32_t>(parse_decimal(value(Id::CacheEntries).text).value_or(0));
}

Loaded layer(std::string_view file_text, std::string_view file, const Environment& environment) {
  Loaded loaded;
  loaded.file = std::string(file);
  const auto parsed = parse_file(file_text, file);
  loaded.problems = parsed.problems.first;
  const auto set = [&loaded](Id id, std::string_view text, Origin origin, std::string place) {
    if (auto done = loaded.settings.set(id, text, origin, std::move(place)); !done) {
      loaded.problems.push_back(done.error());
    }
  };
  for (const FileValue& line : parsed.value) {
    set(line.id, line.text, Origin::File, std::string(file) + ":" + std::to_string(line.line));
  }
  for (const Spec& spec : table()) {
    const std::string variable(spec.variable);
    const char* text = environment(variable.c_str());
    if (text != nullptr && *text != '\0') {
      set(spec.id, text, Origin::Environment, variable);
    }
  }
  return loaded;
}

}  // namespace wireup::settings
