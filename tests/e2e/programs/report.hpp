// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <wireup/wireup.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

// What the programs of the end-to-end tests share.
namespace e2e {

inline constexpr std::uint64_t kMillisecond = 1'000'000;
inline constexpr std::uint64_t kSecond = 1'000 * kMillisecond;

class Stopwatch {
 public:
  [[nodiscard]] double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Ends the process with status 1 and wireup's own sentence when a call failed.
inline void require(wireup_status_t status, const char* step) {
  if (status != WIREUP_OK) {
    std::fprintf(stderr, "%s: %s: %s\n", step, wireup_status_name(status), wireup_last_error());
    std::exit(1);
  }
}

/// A JSON string with its quotes.
inline std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result + '"';
}

/// Waits up to `limit` for the next event; false when none came.
inline bool next_event(wireup_context_t* context, std::uint64_t limit_ns, wireup_event_t& event) {
  event = {};
  event.struct_size = sizeof event;
  if (wireup_poll_event(context, &event) != 0) {
    return true;
  }
  static_cast<void>(wireup_wait(context, limit_ns));
  return wireup_poll_event(context, &event) != 0;
}

}  // namespace e2e
