// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as a sequence of commands, messages and times of two CM engines
// (tests/cm/engine_pair.hpp).
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "base/check.hpp"
#include "cm/engine_pair.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const char* failure = wireup::cm::EnginePair({data, size}).run();
  if (failure != nullptr) {
    std::fprintf(stderr, "does not hold: %s\n", failure);
  }
  WIREUP_CHECK(failure == nullptr);
  return 0;
}
