// SPDX-License-Identifier: BSD-3-Clause
// `softhca fault async`: the asynchronous mode.
#include <cstdio>
#include <string_view>

#include "softhca/cli/fault.hpp"
#include "softhca/fabric/words.hpp"

namespace softhca::cli {
namespace {

constexpr std::uint64_t kLongestUs = 1'000'000;

}  // namespace

int fault_async(const Invocation& call, Words words) {
  hca::Asynchrony mode;
  mode.on = true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view option = words[i];
    if (option == "off" && words.size() == 1) {
      mode.on = false;
      continue;
    }
    if (option != "--seed" && option != "--delay") {
      return wrong_usage("async: unknown word ", words[i]);
    }
    if (i + 1 == words.size()) {
      return wrong_usage("async: a number is missing after ", words[i]);
    }
    const auto number = parse_number(words[++i]);
    if (!number || (option == "--delay" && *number > kLongestUs)) {
      return wrong_usage("async: wants a number (a delay up to 1000000 us), not ", words[i]);
    }
    if (option == "--seed") {
      mode.seed = *number;
    } else {
      mode.longest_us = static_cast<std::uint32_t>(*number);
    }
  }
  const auto faults = open_faults(call);
  if (!faults) {
    return 1;
  }
  faults->set_asynchrony(mode);
  show_async(faults->asynchrony());
  return 0;
}

void show_async(const hca::Asynchrony& mode) {
  if (mode.on) {
    std::printf("async delay %u us seed %llu\n", mode.longest_us,
                static_cast<unsigned long long>(mode.seed));
  } else {
    std::puts("async off");
  }
}

}  // namespace softhca::cli
