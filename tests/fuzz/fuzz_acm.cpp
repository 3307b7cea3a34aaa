// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as an ACM MAD: what parses is written back and reads as the same message.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.hpp"
#include "mad/acm.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  const auto message = wireup::mad::parse_acm(bytes);
  if (message.has_value()) {
    wireup::mad::Mad again{};
    std::visit([&](const auto& value) { wireup::mad::serialize(value, again); }, *message);
    WIREUP_CHECK(wireup::mad::parse_acm(again) == message);
  }
  return 0;
}
