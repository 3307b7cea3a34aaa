// SPDX-License-Identifier: BSD-3-Clause
#include "verify_report.hpp"

#include <fmt/format.h>

#include "record_text.hpp"

namespace wireup::tool {
namespace {

using nlohmann::ordered_json;

const char* trust_text(Trust trust) {
  switch (trust) {
    case Trust::Yes:
      return "yes";
    case Trust::No:
      return "no";
    case Trust::Unknown:
      break;
  }
  return "unknown";
}

/// "same", what differs, or why there is no answer.
std::string direction_text(const Result<mad::PathRecord>& answer,
                           const std::vector<Difference>& found) {
  if (!answer) {
    return fmt::format("no answer: {}", answer.error().what());
  }
  if (found.empty()) {
    return "same";
  }
  std::string text;
  for (const Difference& each : found) {
    text += fmt::format("{}{} {}, the SA says {}", text.empty() ? "" : "; ", each.field,
                        each.cached, each.sa);
  }
  return text;
}

ordered_json direction_json(const Result<mad::PathRecord>& answer,
                            const std::vector<Difference>& found) {
  if (!answer) {
    return {{"answered", false}, {"error", answer.error().what()}};
  }
  auto list = ordered_json::array();
  for (const Difference& each : found) {
    list.push_back({{"field", each.field}, {"cached", each.cached}, {"sa", each.sa}});
  }
  return {{"answered", true},
          {"same", found.empty()},
          {"differences", std::move(list)},
          {"sa", record_json(*answer)}};
}

}  // namespace

std::string verify_text(const VerifyReport& report, bool is_all) {
  std::string text = fmt::format("{} pkey {}: {} paths in {}\n", report.place,
                                 pkey_text(report.pkey), report.paths.size(), report.cache);
  for (const CheckedPath& path : report.paths) {
    if (path.is_good() && !is_all) {
      continue;
    }
    text += fmt::format("  {} source {} age {}\n    outward: {}\n    inward: {}\n",
                        record_text(path.cached.path.record),
                        acm::origin_name(path.cached.path.origin), age_text(path.cached.path.age),
                        direction_text(path.outward, path.outward_differences()),
                        direction_text(path.inward, path.inward_differences()));
  }
  const Verdict& verdict = report.verdict;
  text += fmt::format("  {} checked, {} differ, {} without an answer\n", verdict.checked,
                      verdict.wrong, verdict.unanswered);
  text += fmt::format("  multicast paths can be trusted: {}", trust_text(verdict.multicast));
  for (const std::string& reason : verdict.reasons) {
    text += fmt::format("\n    {}", reason);
  }
  if (!verdict.advice.empty()) {
    text += fmt::format("\n    to do: {}", verdict.advice);
  }
  return text;
}

ordered_json verify_json(const VerifyReport& report) {
  auto list = ordered_json::array();
  for (const CheckedPath& path : report.paths) {
    list.push_back({{"source", acm::origin_name(path.cached.path.origin)},
                    {"age_seconds", age_json(path.cached.path.age)},
                    {"good", path.is_good()},
                    {"cached", record_json(path.cached.path.record)},
                    {"outward", direction_json(path.outward, path.outward_differences())},
                    {"inward", direction_json(path.inward, path.inward_differences())}});
  }
  return {{"place", report.place},
          {"pkey", pkey_text(report.pkey)},
          {"cache", report.cache},
          {"checked", report.verdict.checked},
          {"differ", report.verdict.wrong},
          {"unanswered", report.verdict.unanswered},
          {"multicast_trusted", trust_text(report.verdict.multicast)},
          {"reasons", report.verdict.reasons},
          {"to_do", report.verdict.advice},
          {"paths", std::move(list)}};
}

}  // namespace wireup::tool
