// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as a sequence of calls of an ACM engine (tests/acm/engine_model.hpp).
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "acm/engine_model.hpp"
#include "base/check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const char* failure = wireup::acm::test::EngineModel({data, size}).run();
  if (failure != nullptr) {
    std::fprintf(stderr, "does not hold: %s\n", failure);
  }
  WIREUP_CHECK(failure == nullptr);
  return 0;
}
