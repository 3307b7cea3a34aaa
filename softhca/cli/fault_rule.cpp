// SPDX-License-Identifier: BSD-3-Clause
// `softhca fault ud|rc|error|call|limit|qkeys`: rules, and the rule about Q_Keys.
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "softhca/cli/rule_words.hpp"
#include "softhca/fabric/words.hpp"

namespace softhca::cli {
namespace {

using hca::FaultRule;
using hca::RuleKind;

/// What the first words say; `used` of them. An empty text, or what is wrong.
std::string read_subject(std::string_view command, Words words, FaultRule& rule,
                         std::size_t& used) {
  const std::string_view first = words.empty() ? "" : words.front();
  used = 1;
  constexpr std::array<std::pair<std::string_view, RuleKind>, 7> kActions{
      {{"ud drop", RuleKind::UdDrop},
       {"ud duplicate", RuleKind::UdDuplicate},
       {"ud delay", RuleKind::UdDelay},
       {"ud reorder", RuleKind::UdReorder},
       {"ud corrupt", RuleKind::UdCorrupt},
       {"rc stall", RuleKind::Stall},
       {"rc break", RuleKind::Break}}};
  const std::string both = std::string(command) + " " + std::string(first);
  for (const auto& [name, kind] : kActions) {
    if (name == both) {
      rule.kind = kind;
      return {};
    }
  }
  if (command == "error") {
    const auto status = status_by_name(first);
    rule.kind = RuleKind::Error;
    rule.code = status.value_or(0);
    return status ? "" : "error: unknown completion status \"" + std::string(first) + "\"";
  }
  if (command == "call") {
    const auto call = call_by_name(first);
    rule.kind = RuleKind::Call;
    rule.what = call.value_or(0);
    return call ? "" : "call: unknown call \"" + std::string(first) + "\"";
  }
  if (command == "limit") {
    const auto limit = limit_by_name(first);
    const auto value = words.size() > 1 ? parse_number(words[1]) : std::nullopt;
    rule.kind = RuleKind::Limit;
    rule.what = limit.value_or(0);
    rule.value = value.value_or(0);
    used = 2;
    return limit && value ? "" : "limit: wants qps, cqes or memory, and a number";
  }
  return std::string(command) + ": unknown action \"" + std::string(first) + "\"";
}

}  // namespace

int fault_rule(const Invocation& call, const char* command, Words words) {
  FaultRule rule;
  std::size_t used = 0;
  std::string mistake = read_subject(command, words, rule, used);
  if (!mistake.empty()) {
    return wrong_usage(mistake.c_str(), "");
  }
  const auto faults = open_faults(call);
  const auto view = FabricView::attach(call.dir.c_str());
  if (!faults || !view) {
    if (faults) {
      report_no_fabric(call.dir);
    }
    return 1;
  }
  mistake = read_options(words.subspan(used), *view, rule);
  if (mistake.empty() && rule.kind == RuleKind::Call && rule.code == 0) {
    mistake = "call: --errno is missing";
  }
  if (!mistake.empty()) {
    return wrong_usage(mistake.c_str(), "");
  }
  if (!faults->add(rule)) {
    std::fprintf(stderr, "softhca: fault: there are %zu rules already; clear them first\n",
                 hca::kMaxRules);
    return 1;
  }
  std::printf("%s\n", rule_text(rule, view.get()).c_str());
  return 0;
}

int fault_qkeys(const Invocation& call, Words words) {
  const std::string_view mode = words.size() == 1 ? words.front() : "";
  if (mode != "restricted" && mode != "open") {
    return wrong_usage("qkeys: wants restricted or open", "");
  }
  const auto faults = open_faults(call);
  if (!faults) {
    return 1;
  }
  faults->restrict_qkeys(mode == "restricted");
  show_qkeys(*faults);
  return 0;
}

void show_qkeys(const hca::Faults& faults) {
  std::printf("qkeys %s\n", faults.qkeys_restricted() ? "restricted" : "open");
}

void show_rules(const Invocation& call, const hca::Faults& faults) {
  const auto view = FabricView::attach(call.dir.c_str());
  for (const hca::RuleReport& report : faults.rules()) {
    std::printf("%s: matched %llu, hit %llu\n", rule_text(report.rule, view.get()).c_str(),
                static_cast<unsigned long long>(report.matched),
                static_cast<unsigned long long>(report.hit));
  }
}

}  // namespace softhca::cli
