// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as a card: what parses packs into the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.hpp"
#include "pmix/engine/card.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  const auto card = wireup::pmix::parse_card(bytes);
  if (card.has_value()) {
    const auto again = wireup::pmix::serialize(*card);
    WIREUP_CHECK(again.has_value() && std::equal(again->begin(), again->end(), data, data + size));
  }
  return 0;
}
