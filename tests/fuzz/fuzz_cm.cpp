// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as a CM MAD, and as a ClassPortInfo of the class: what parses is written back and reads
// as the same.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.hpp"
#include "mad/class_port_info.hpp"
#include "mad/cm.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace wireup::mad;
  const std::span<const std::uint8_t> bytes(data, size);
  const auto message = parse_cm(bytes);
  if (message.has_value()) {
    WIREUP_CHECK(parse_cm(serialize(*message)) == message);
  }
  const auto answer = answer_class_port_info(bytes, wireup::IbTimeout(20));
  // A question is no message, and its answer is neither.
  WIREUP_CHECK(!answer.has_value() || !message.has_value());
  WIREUP_CHECK(!answer.has_value() || !parse_cm(*answer).has_value());
  if (size >= kHeaderSize) {
    const auto info = parse_class_port_info(bytes.subspan(kHeaderSize));
    WIREUP_CHECK(info.has_value() == (size >= kHeaderSize + kClassPortInfoSize));
    if (info.has_value()) {
      std::array<std::uint8_t, kClassPortInfoSize> written{};
      serialize(*info, std::span(written));
      WIREUP_CHECK(parse_class_port_info(written) == info);
    }
  }
  return 0;
}
