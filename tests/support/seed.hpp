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

}  // namespace wireup::test
