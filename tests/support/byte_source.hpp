// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wireup::test {

/// Numbers out of a string of bytes; zeros behind its end. For fuzzers and properties: every string
/// describes a sequence of decisions.
class ByteSource {
 public:
  explicit ByteSource(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool is_empty() const { return at_ >= bytes_.size(); }
  std::uint8_t next() { return is_empty() ? std::uint8_t{0} : bytes_[at_++]; }
  std::size_t below(std::size_t bound) { return next() % bound; }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

}  // namespace wireup::test
