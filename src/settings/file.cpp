// SPDX-License-Identifier: BSD-3-Clause
#include "settings/file.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace wireup::settings {
namespace {

/// The line up to a '#' behind a blank.
std::string_view without_remark(std::string_view line) noexcept {
  for (std::size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1)) {
    if (at > 0 && (line[at - 1] == ' ' || line[at - 1] == '\t')) {
      return line.substr(0, at);
    }
  }
  return line;
}

}  // namespace

Parsed<std::vector<FileValue>> parse_file(std::string_view text, std::string_view file) {
  Parsed<std::vector<FileValue>> parsed;
  ProblemLog log(file, parsed.problems);
  LineReader lines(text);
  while (const auto line = lines.next(log)) {
    const std::string_view whole = trim(without_remark(line->text));
    if (whole.empty()) {
      continue;  // a remark that is indented
    }
    const std::size_t equals = whole.find('=');
    if (equals == std::string_view::npos) {
      log.add(line->number, Errc::InvalidArgument, "%s has no '=': write name = value",
              shown(whole).data());
      continue;
    }
    const std::string_view name = trim(whole.substr(0, equals));
    const Spec* spec = find(name);
    if (spec == nullptr) {
      log.add(line->number, Errc::InvalidArgument,
              "there is no setting %s: correct it or take the line out (wireup.conf(5) has them "
              "all)",
              shown(name).data());
      continue;
    }
    auto value = normalise(*spec, whole.substr(equals + 1));
    if (!value) {
      const std::string_view why = value.error().what();
      log.add(line->number, Errc::InvalidArgument, "%.*s", static_cast<int>(why.size()),
              why.data());
      continue;
    }
    const auto before = std::find_if(parsed.value.begin(), parsed.value.end(),
                                     [spec](const FileValue& each) { return each.id == spec->id; });
    if (before != parsed.value.end()) {
      log.add(line->number, Errc::InvalidArgument, "'%.*s' is set in line %zu already: keep one",
              static_cast<int>(name.size()), name.data(), before->line);
      continue;
    }
    parsed.value.push_back({spec->id, std::move(*value), line->number});
  }
  return parsed;
}

}  // namespace wireup::settings
