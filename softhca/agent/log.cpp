// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/log.hpp"

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace softhca {
namespace {

std::mutex mutex;

void print(const char* format, std::va_list args, unsigned left_out) {
  std::fputs("softhca-agent: ", stderr);
  std::vfprintf(stderr, format, args);
  if (left_out != 0) {
    std::fprintf(stderr, " (%u lines left out)", left_out);
  }
  std::fputc('\n', stderr);
  std::fflush(stderr);
}

}  // namespace

void log_line(const char* format, ...) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::va_list args;
  va_start(args, format);
  print(format, args, 0);
  va_end(args);
}

void log_limited(const char* format, ...) {
  const std::lock_guard<std::mutex> lock(mutex);
  static std::chrono::steady_clock::time_point last{};
  static unsigned left_out = 0;
  const auto now = std::chrono::steady_clock::now();
  if (now - last < std::chrono::seconds(1)) {
    ++left_out;
    return;
  }
  last = now;
  std::va_list args;
  va_start(args, format);
  print(format, args, left_out);
  va_end(args);
  left_out = 0;
}

}  // namespace softhca
