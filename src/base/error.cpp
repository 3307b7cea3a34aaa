// SPDX-License-Identifier: BSD-3-Clause
#include "base/error.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

namespace wireup {
namespace {

struct Entry {
  Errc code;
  const char* name;
  const char* sentence;
};

constexpr Entry kEntries[] = {
#define WIREUP_ERROR_ENTRY(name, number, sentence) {Errc::name, #name, sentence},
    WIREUP_ERRORS(WIREUP_ERROR_ENTRY)
#undef WIREUP_ERROR_ENTRY
};

const Entry* find(Errc code) noexcept {
  for (const Entry& entry : kEntries) {
    if (entry.code == code) {
      return &entry;
    }
  }
  return nullptr;
}

const char* sentence(Errc code) noexcept {
  const Entry* entry = find(code);
  return entry != nullptr ? entry->sentence : "unknown error";
}

class Category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "wireup"; }
  [[nodiscard]] std::string message(int value) const override {
    return sentence(static_cast<Errc>(value));
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

std::error_code make_error_code(Errc code) noexcept {
  return {static_cast<int>(code), error_category()};
}

std::string_view error_name(Errc code) noexcept {
  const Entry* entry = find(code);
  return entry != nullptr ? entry->name : "Unknown";
}

Error Error::make(Errc code, const char* format, ...) noexcept {
  Error error(code);
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error.detail_.data(), error.detail_.size(), format, arguments);
  va_end(arguments);
  return error;
}

Error Error::system(Errc code, int error_number, const char* format, ...) noexcept {
  Error error(code);
  error.error_number_ = error_number;
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error.detail_.data(), error.detail_.size(), format, arguments);
  va_end(arguments);
  const std::size_t used = std::strlen(error.detail_.data());
  std::array<char, 128> buffer{};
  // The GNU strerror_r returns the text, which need not be in the buffer.
  const char* text = strerror_r(error_number, buffer.data(), buffer.size());
  std::snprintf(error.detail_.data() + used, error.detail_.size() - used, ": %s (errno %d)", text,
                error_number);
  return error;
}

std::string_view Error::what() const noexcept {
  if (detail_[0] != '\0') {
    return {detail_.data()};
  }
  if (code_.category() == error_category()) {
    return sentence(static_cast<Errc>(code_.value()));
  }
  return "system error";
}

}  // namespace wireup
