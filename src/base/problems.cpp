// SPDX-License-Identifier: BSD-3-Clause
#include "base/problems.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace wireup {
namespace {

constexpr std::string_view kCut = "...";

char printable(char c) noexcept {
  return c >= ' ' && c <= '~' ? c : '?';
}

}  // namespace

ProblemLog::ProblemLog(std::string_view file, Problems& to) noexcept : to_(to) {
  char* end = file_.data();
  if (file.size() > kMaxFileName) {
    file.remove_prefix(file.size() - kMaxFileName + kCut.size());
    end = std::copy(kCut.begin(), kCut.end(), end);
  }
  std::transform(file.begin(), file.end(), end, printable);
}

void ProblemLog::add(std::size_t line, Errc code, const char* format, ...) {
  ++to_.count;
  if (to_.first.size() >= Problems::kMaxKept) {
    return;
  }
  std::array<char, Error::kDetailSize> text{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  to_.first.push_back(Error::make(code, "%s:%zu: %s", file_.data(), line, text.data()));
}

ShownWord shown(std::string_view word) noexcept {
  constexpr std::size_t kMax = 32;
  static_assert(kMax + kCut.size() + 3 <= std::tuple_size_v<ShownWord>);
  ShownWord text{};
  const std::string_view start = word.substr(0, kMax);
  char* end = text.data();
  *end++ = '\'';
  end = std::transform(start.begin(), start.end(), end, printable);
  if (start.size() < word.size()) {
    end = std::copy(kCut.begin(), kCut.end(), end);
  }
  *end = '\'';
  return text;
}

}  // namespace wireup
