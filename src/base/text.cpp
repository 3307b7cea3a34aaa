// SPDX-License-Identifier: BSD-3-Clause
#include "base/text.hpp"

#include <algorithm>
#include <charconv>

namespace wireup {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::optional<std::uint64_t> parse(std::string_view text, int base) noexcept {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return value;
}

bool has_hexadecimal_prefix(std::string_view text) noexcept {
  return text.starts_with("0x") || text.starts_with("0X");
}

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

LineReader::LineReader(std::string_view text) noexcept : rest_(text) {
  if (rest_.starts_with(kByteOrderMark)) {
    rest_.remove_prefix(kByteOrderMark.size());
  }
}

std::optional<Line> LineReader::next(ProblemLog& log) {
  while (!rest_.empty()) {
    const std::size_t length = std::min(rest_.find('\n'), rest_.size());
    const std::string_view text = rest_.substr(0, length);
    rest_.remove_prefix(std::min(length + 1, rest_.size()));
    ++number_;
    if (text.starts_with('#') || text.find_first_not_of(kBlanks) == std::string_view::npos) {
      continue;
    }
    if (const std::size_t at = text.find('\0'); at != std::string_view::npos) {
      log.add(number_, Errc::InvalidArgument,
              "a NUL byte in column %zu: lines are text; is this the right file?", at + 1);
      continue;
    }
    return Line{.text = text, .number = number_};
  }
  return std::nullopt;
}

std::string_view Words::next() noexcept {
  rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size()));
  const std::string_view word = rest_.substr(0, rest_.find_first_of(kBlanks));
  rest_.remove_prefix(word.size());
  return word;
}

bool Words::at_end(const Line& line, ProblemLog& log) {
  const std::string_view word = next();
  if (word.empty() || word.starts_with('#')) {
    return true;
  }
  log.add(line.number, Errc::InvalidArgument,
          "%s is one word too many: take it away, or put a # before it", shown(word).data());
  return false;
}

std::string_view trim(std::string_view text) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::uint64_t> parse_decimal(std::string_view text) noexcept {
  return parse(text, 10);
}

std::optional<std::uint64_t> parse_hexadecimal(std::string_view text) noexcept {
  return parse(has_hexadecimal_prefix(text) ? text.substr(2) : text, 16);
}

std::optional<std::uint64_t> parse_number(std::string_view text) noexcept {
  return has_hexadecimal_prefix(text) ? parse_hexadecimal(text) : parse_decimal(text);
}

}  // namespace wireup
