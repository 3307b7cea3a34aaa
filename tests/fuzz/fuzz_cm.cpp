// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as a CM MAD: what parses is written back and reads as the same message.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.hpp"
#include "mad/cm.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = wireup::mad::parse_cm(std::span<const std::uint8_t>(data, size));
  if (message.has_value()) {
    WIREUP_CHECK(wireup::mad::parse_cm(wireup::mad::serialize(*message)) == message);
  }
  return 0;
}
