// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/problems.hpp"

namespace wireup {

// The form that our files and ibacm's share: lines of words, '#' in the first column for a comment.
// ibacm takes at most 119 (127) bytes as a line and what follows as another one; here a line is a
// line, whatever its length. Views point into the text of the file.

/// A line without its end, "\n" or "\r\n"; the last one need not have an end.
struct Line {
  std::string_view text;
  /// From 1.
  std::size_t number = 0;
};

class LineReader {
 public:
  /// A UTF-8 byte order mark in front is left out.
  explicit LineReader(std::string_view text) noexcept;

  /// The next line that says something: no comment and not blank. A line with a NUL is reported
  /// and left out. Nothing at the end of the text.
  [[nodiscard]] std::optional<Line> next(ProblemLog& log);
  /// Number of the line that was read last.
  [[nodiscard]] std::size_t number() const noexcept { return number_; }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

/// The words of a line, parted by blanks.
class Words {
 public:
  explicit Words(std::string_view line) noexcept : rest_(line) {}
  /// Empty at the end of the line.
  [[nodiscard]] std::string_view next() noexcept;
  /// Reports a word that is left over. Words from one on that begins with '#' are a remark: ibacm
  /// reads no further than it has to, so people write them.
  [[nodiscard]] bool at_end(const Line& line, ProblemLog& log);

 private:
  std::string_view rest_;
};

[[nodiscard]] std::string_view trim(std::string_view text) noexcept;

/// ASCII letters only; every other byte has to be the same.
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;

/// Digits alone: no sign, no blank. Nothing for another text or a number above 2^64 - 1.
[[nodiscard]] std::optional<std::uint64_t> parse_decimal(std::string_view text) noexcept;
/// Hexadecimal digits with or without "0x" in front.
[[nodiscard]] std::optional<std::uint64_t> parse_hexadecimal(std::string_view text) noexcept;
/// Hexadecimal with "0x" in front, decimal without.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text) noexcept;

}  // namespace wireup
