// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace wireup {

/// What was wrong in a file. Each text begins with "FILE:LINE: " (lines from 1) and names the
/// value, the limit and what to do.
struct Problems {
  static constexpr std::size_t kMaxKept = 20;

  /// The first kMaxKept of them, in the order in which they were found.
  std::vector<Error> first;
  /// How many there were, those that are not kept included.
  std::size_t count = 0;

  [[nodiscard]] bool empty() const noexcept { return count == 0; }
  friend bool operator==(const Problems&, const Problems&) noexcept = default;
};

/// What a file says: everything that could be used, and what could not. A line with a problem is
/// not used. Whether the rest is good enough is for the caller to decide.
template <typename T>
struct Parsed {
  T value;
  Problems problems;
  friend bool operator==(const Parsed&, const Parsed&) noexcept = default;
};

/// Adds to the problems of one file.
class ProblemLog {
 public:
  /// A longer file name is shown by its last bytes, so that there is room for what is wrong.
  static constexpr std::size_t kMaxFileName = 64;

  /// `to` must outlive the log.
  ProblemLog(std::string_view file, Problems& to) noexcept;

  /// printf-like; the format is checked by the compiler.
  [[gnu::format(printf, 4, 5)]] void add(std::size_t line, Errc code, const char* format, ...);

 private:
  std::array<char, kMaxFileName + 1> file_{};
  Problems& to_;
};

/// A word of a file as it can be shown in a message: in quotation marks, bytes that are not
/// printable ASCII as '?', at most 32 bytes of it ("..." stands for the rest). NUL-terminated.
using ShownWord = std::array<char, 40>;
[[nodiscard]] ShownWord shown(std::string_view word) noexcept;

}  // namespace wireup
