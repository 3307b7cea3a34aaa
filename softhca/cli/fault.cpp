// SPDX-License-Identifier: BSD-3-Clause
// `softhca fault`: what goes wrong on the fabric.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "softhca/cli/fault.hpp"
#include "softhca/cli/fault_agent.hpp"
#include "softhca/fabric/fabric_view.hpp"
#include "softhca/fabric/words.hpp"

namespace softhca::cli {
namespace {

constexpr double kMillion = 1e6;

/// 0 and `settings` filled in, or the exit status.
int parse_ud(std::span<char* const> args, hca::UdFaultSettings& settings) {
  for (std::size_t i = 0; i < args.size(); i += 2) {
    const std::string_view option = args[i];
    if (i + 1 == args.size()) {
      return wrong_usage("a value is missing after ", args[i]);
    }
    const char* text = args[i + 1];
    if (option == "--seed") {
      const auto seed = parse_number(text);
      if (!seed) {
        return wrong_usage("--seed wants a number, not ", text);
      }
      settings.seed = *seed;
      continue;
    }
    std::uint32_t* target = option == "--drop"        ? &settings.drop_ppm
                            : option == "--duplicate" ? &settings.duplicate_ppm
                            : option == "--reorder"   ? &settings.reorder_ppm
                                                      : nullptr;
    if (target == nullptr) {
      return wrong_usage("unknown option ", args[i]);
    }
    const auto ppm = parse_probability(text);
    if (!ppm) {
      return wrong_usage("a probability is 0 to 1 or 0% to 100%, not ", text);
    }
    *target = *ppm;
  }
  return 0;
}

void show(const hca::UdFaultSettings& settings) {
  std::printf("ud drop %g duplicate %g reorder %g seed %llu\n", settings.drop_ppm / kMillion,
              settings.duplicate_ppm / kMillion, settings.reorder_ppm / kMillion,
              static_cast<unsigned long long>(settings.seed));
}

}  // namespace

int wrong_usage(const char* what, const char* detail) {
  std::fprintf(stderr, "softhca: fault: %s%s\n%s", what, detail, kVerbsFaultHelp);
  return 2;
}

std::unique_ptr<hca::Faults> open_faults(const Invocation& call) {
  // Anywhere else the settings would be stored and never looked at.
  if (FabricView::attach(call.dir.c_str()) == nullptr && errno != ENODEV && errno != EAGAIN) {
    report_no_fabric(call.dir);
    return nullptr;
  }
  auto faults = hca::Faults::attach(call.dir.c_str());
  if (!faults) {
    std::fprintf(stderr, "softhca: cannot open %s/%s: %s\n", call.dir.c_str(), hca::kFaultsFile,
                 std::strerror(errno));
  }
  return faults;
}

int run_fault(const Invocation& call) {
  const std::string_view command = call.args.empty() ? "" : call.args.front();
  if (command == "help" || command == "--help") {
    std::fputs(kVerbsFaultHelp, stdout);
    std::fputs(kAgentFaultHelp, stdout);
    return 0;
  }
  if (is_agent_fault(command)) {
    return run_agent_fault(call);
  }
  if (command.empty()) {
    return wrong_usage("what?", "");
  }
  const Words rest = call.args.subspan(1);
  const bool action = !rest.empty() && rest.front()[0] != '-';
  if (command == "async") {
    return fault_async(call, rest);
  }
  if (command == "qkeys") {
    return fault_qkeys(call, rest);
  }
  if ((command == "ud" && action) || command == "rc" || command == "error" || command == "call" ||
      command == "limit") {
    return fault_rule(call, call.args.front(), rest);
  }
  if (command != "ud" && command != "show" && command != "clear") {
    return wrong_usage("unknown command ", call.args.front());
  }
  hca::UdFaultSettings settings;
  if (command == "ud") {
    const int status = parse_ud(rest, settings);
    if (status != 0) {
      return status;
    }
  } else if (!rest.empty()) {
    return wrong_usage("unexpected argument ", rest.front());
  }
  const auto faults = open_faults(call);
  if (!faults) {
    return 1;
  }
  if (command != "show") {
    faults->set(settings);
  }
  if (command == "clear") {
    faults->clear_rules();
  }
  show(faults->settings());
  show_async(faults->asynchrony());
  show_qkeys(*faults);
  show_rules(call, *faults);
  return 0;
}

}  // namespace softhca::cli
