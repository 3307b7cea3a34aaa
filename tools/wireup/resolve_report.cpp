// SPDX-License-Identifier: BSD-3-Clause
#include "resolve_report.hpp"

#include <fmt/format.h>

#include "record_text.hpp"

namespace wireup::tool {
namespace {

using nlohmann::ordered_json;

std::string_view kind_of(const Error& error) {
  return error.code().category() == error_category()
             ? error_name(static_cast<Errc>(error.code().value()))
             : "System";
}

}  // namespace

std::string resolve_line(const Target& target, const acm::NodePath& path) {
  return fmt::format("{} {} source {} age {} generation {} by {}{}{}", target.text,
                     record_text(path.record), path.origin, age_text(path.age),
                     path.generation.has_value() ? fmt::format("{}", *path.generation) : "-",
                     path.answered_by, path.place.empty() ? "" : " on ", path.place);
}

std::string failure_line(const Target& target, const acm::NodeRefusal& refusal) {
  return fmt::format("{}: {}{}{}: {}", target.text, refusal.step,
                     refusal.place.empty() ? "" : " on ", refusal.place, refusal.error.what());
}

ordered_json resolve_json(const Target& target, const acm::NodeAnswer& answer) {
  ordered_json json{{"target", target.text}, {"ok", answer.has_value()}};
  if (!answer) {
    json.update({{"step", answer.error().step},
                 {"place", answer.error().place},
                 {"kind", kind_of(answer.error().error)},
                 {"error", answer.error().error.what()}});
    return json;
  }
  json.update({{"source", answer->origin},
               {"answered_by", answer->answered_by},
               {"place", answer->place},
               {"age_seconds", age_json(answer->age)},
               {"generation", answer->generation.has_value() ? ordered_json(*answer->generation)
                                                             : ordered_json(nullptr)},
               {"path", record_json(answer->record)}});
  return json;
}

}  // namespace wireup::tool
