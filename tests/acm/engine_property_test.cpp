// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "acm/engine_model.hpp"
#include "support/seed.hpp"

namespace wireup::acm::test {
namespace {

/// Long sequences of calls, drawn evenly.
TEST(AcmProperty, AnySequenceOfCalls) {
  Rng rng(wireup::test::seed(5));
  const std::uint64_t rounds = wireup::test::rounds(400);
  std::uint64_t entries = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::vector<std::uint8_t> bytes(2000);
    for (std::uint8_t& byte : bytes) {
      byte = static_cast<std::uint8_t>(rng.next());
    }
    EngineModel model(bytes);
    const char* failure = model.run();
    ASSERT_EQ(failure, nullptr) << failure << " in round " << round;
    entries += model.engine().counters().requests_received;
  }
  EXPECT_GT(entries, rounds) << "the sequences do reach the engine";
}

/// Short ones, which shrink to what matters when one fails.
RC_GTEST_PROP(AcmProperty, ShortSequences, ()) {
  const auto bytes =
      *rc::gen::container<std::vector<std::uint8_t>>(300, rc::gen::arbitrary<std::uint8_t>());
  const char* failure = EngineModel(bytes).run();
  if (failure != nullptr) {
    RC_FAIL(failure);
  }
}

}  // namespace
}  // namespace wireup::acm::test
