// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/fault_text.hpp"

#include <map>
#include <optional>
#include <string_view>

#include "softhca/fabric/words.hpp"

namespace softhca {
namespace {

const std::map<std::string_view, FaultAction> kActions = {
    {"drop", FaultAction::Drop},       {"duplicate", FaultAction::Duplicate},
    {"delay", FaultAction::Delay},     {"reorder", FaultAction::Reorder},
    {"corrupt", FaultAction::Corrupt}, {"busy", FaultAction::Busy},
    {"rate", FaultAction::Rate}};

const std::map<std::string_view, std::uint8_t> kClasses = {
    {"sa", kClassSa}, {"cm", kClassCm}, {"perf", kClassPerf}};

template <typename T>
std::optional<T> number(std::string_view text, std::uint64_t low, std::uint64_t high) {
  const auto value = parse_number(text, low, high);
  return value ? std::optional(static_cast<T>(*value)) : std::nullopt;
}

/// What is wrong with the option, or nothing.
std::string set_option(GsiRule& rule, std::string_view name, const std::string& value,
                       const FabricView& view) {
  const auto take = [&](auto& place, auto parsed, const char* range) -> std::string {
    if (!parsed) {
      return std::string(name) + " is \"" + value + "\"; it must be " + range;
    }
    place = *parsed;
    return {};
  };
  if (name == "--src" || name == "--dst") {
    auto& ports = name == "--src" ? rule.from : rule.to;
    ports = ports_by_name(value, view);
    return ports.empty() ? "no port \"" + value + "\"; HOST, HOST:PORT or HOST:DEVICE:PORT" : "";
  }
  if (name == "--class") {
    const auto known = kClasses.find(value);
    return take(rule.mgmt_class,
                known != kClasses.end() ? std::optional(known->second)
                                        : number<std::uint8_t>(value, 1, 255),
                "sa, cm, perf or a number up to 255");
  }
  if (name == "--attr") {
    return take(rule.attribute, number<std::uint16_t>(value, 0, 65535), "a number up to 0xffff");
  }
  if (name == "--method") {
    return take(rule.method, number<std::uint8_t>(value, 0, 255), "a number up to 255");
  }
  if (name == "--chance") {
    return take(rule.chance_ppm, parse_probability(value), "0 to 1 or 0% to 100%");
  }
  if (name == "--nth") {
    return take(rule.nth, number<std::uint64_t>(value, 1, UINT64_MAX), "a number from 1");
  }
  if (name == "--every") {
    return take(rule.every, number<std::uint64_t>(value, 1, UINT64_MAX), "a number from 1");
  }
  if (name == "--count") {
    return take(rule.count, number<std::uint64_t>(value, 1, UINT64_MAX), "a number from 1");
  }
  if (name == "--seed") {
    return take(rule.seed, number<std::uint64_t>(value, 0, UINT64_MAX), "a number");
  }
  if (name == "--delay") {
    const auto ms = number<std::chrono::milliseconds::rep>(value, 1, 600000);
    return take(rule.delay, ms ? std::optional(std::chrono::milliseconds(*ms)) : std::nullopt,
                "1 to 600000 ms");
  }
  return "unknown option " + std::string(name) +
         "; known are --src --dst --class --attr --method --requests --responses --chance --nth "
         "--every --count --delay --seed";
}

std::string set_options(GsiRule& rule, std::span<const std::string> words, const FabricView& view) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--requests" || words[i] == "--responses") {
      rule.response = words[i] == "--responses";
      continue;
    }
    if (i + 1 == words.size()) {
      return words[i] + " needs a value";
    }
    std::string mistake = set_option(rule, words[i], words[i + 1], view);
    if (!mistake.empty()) {
      return mistake;
    }
    ++i;
  }
  return {};
}

std::string joined(std::string_view first, std::span<const std::string> words) {
  std::string text(first);
  for (const std::string& word : words) {
    text += " " + word;
  }
  return text;
}

}  // namespace

std::variant<GsiRule, FaultMistake> parse_gsi_rule(std::span<const std::string> words,
                                                   const FabricView& view) {
  GsiRule rule;
  const auto action = words.empty() ? kActions.end() : kActions.find(words.front());
  if (action == kActions.end() || action->second == FaultAction::Rate ||
      action->second == FaultAction::Busy) {
    return FaultMistake{"gsi needs drop, duplicate, delay, reorder or corrupt, or list or clear"};
  }
  rule.action = action->second;
  rule.text = joined("gsi", words);
  const std::string mistake = set_options(rule, words.subspan(1), view);
  if (!mistake.empty()) {
    return FaultMistake{mistake};
  }
  return rule;
}

std::variant<GsiRule, FaultMistake> parse_sa_rule(std::span<const std::string> words,
                                                  const FabricView& view) {
  GsiRule rule;
  rule.mgmt_class = kClassSa;
  rule.response = false;
  rule.text = joined("sa", words);
  const std::string_view what = words.empty() ? std::string_view() : words.front();
  std::size_t used = 1;
  if (what == "silent") {
    rule.action = FaultAction::Drop;
  } else if (what == "busy") {
    rule.action = FaultAction::Busy;
  } else if (what == "slow" || what == "rate") {
    const auto value = words.size() < 2 ? std::nullopt : number<std::uint32_t>(words[1], 1, 600000);
    if (!value) {
      return FaultMistake{what == "slow" ? "sa slow needs 1 to 600000 ms"
                                         : "sa rate needs 1 to 600000 answers per second"};
    }
    used = 2;
    rule.action = what == "slow" ? FaultAction::Delay : FaultAction::Rate;
    rule.delay = std::chrono::milliseconds(*value);
    rule.per_second = *value;
  } else {
    return FaultMistake{"sa needs silent, slow MS, busy or rate N, or list or clear"};
  }
  const std::string mistake = set_options(rule, words.subspan(used), view);
  if (!mistake.empty()) {
    return FaultMistake{mistake};
  }
  return rule;
}

std::string list_rules(const GsiFaults& faults) {
  std::string text;
  for (const GsiFaults::Entry& entry : faults.entries()) {
    text += entry.rule.text + ": matched " + std::to_string(entry.matched) + ", hit " +
            std::to_string(entry.hit) + "\n";
  }
  return text.empty() ? "no faults of MADs\n" : text;
}

}  // namespace softhca
