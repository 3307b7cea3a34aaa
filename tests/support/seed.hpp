// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace wireup::test {

/// The seed of a random test: `usual`, or WIREUP_SEED of the environment (decimal or 0x...).
/// Printed, and recorded as a property of the test, so that a failure can be repeated.
[[nodiscard]] inline std::uint64_t seed(std::uint64_t usual = 1) {
  std::uint64_t chosen = usual;
  if (const char* text = std::getenv("WIREUP_SEED"); text != nullptr && *text != '\0') {
    chosen = std::strtoull(text, nullptr, 0);
  }
  std::printf("WIREUP_SEED=%llu\n", static_cast<unsigned long long>(chosen));
  testing::Test::RecordProperty("seed", std::to_string(chosen));
  return chosen;
}

/// How many rounds a random test makes: `usual`, times WIREUP_TIMES of the environment (a positive
/// decimal; the full run sets it).
[[nodiscard]] inline std::uint64_t rounds(std::uint64_t usual) {
  std::uint64_t times = 1;
  if (const char* text = std::getenv("WIREUP_TIMES"); text != nullptr) {
    times = std::strtoull(text, nullptr, 10);
  }
  return usual * (times == 0 ? 1 : times);
}

}  // namespace wireup::test
