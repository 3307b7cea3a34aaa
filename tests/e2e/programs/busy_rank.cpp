// SPDX-License-Identifier: BSD-3-Clause
//
// busy_rank: rank 0 opens a context with a helper thread and then computes for 5 s without calling
// wireup. Rank 1 connects to it and closes, several times meanwhile, and prints one line of JSON
// with the longest time a connect took.
#include <unistd.h>

#include <algorithm>

#include "e2e/programs/report.hpp"

namespace {

using e2e::kSecond;

constexpr int kConnects = 10;
constexpr double kComputeMs = 5000;

/// Work that the compiler cannot drop.
std::uint64_t compute() {
  const e2e::Stopwatch watch;
  volatile std::uint64_t sum = 0;
  while (watch.milliseconds() < kComputeMs) {
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      sum = sum + i;
    }
  }
  return sum;
}

double connect_and_close(wireup_context_t* context) {
  const wireup_peer_t peer{nullptr, 0};
  const e2e::Stopwatch watch;
  e2e::require(wireup_connect(context, &peer, 3 * kSecond), "connect");
  wireup_event_t event{};
  while (!e2e::next_event(context, kSecond, event)) {
  }
  const double elapsed = watch.milliseconds();
  if (event.type != WIREUP_EVENT_CONNECTED) {
    std::fprintf(stderr, "connect: %s\n", event.text);
    std::exit(1);
  }
  e2e::require(wireup_close(context, &peer), "close");
  while (!e2e::next_event(context, kSecond, event)) {
  }
  return elapsed;
}

}  // namespace

int main() {
  wireup_config_t config{};
  e2e::require(wireup_config_init(&config, sizeof config), "config");
  config.flags = WIREUP_FLAG_HELPER_THREAD;
  wireup_context_t* context = nullptr;
  e2e::require(wireup_context_open(&config, &context), "open");
  if (wireup_rank(context) == 0) {
    static_cast<void>(compute());
  } else {
    // The first connect also resolves the path, which no rank's computing can delay.
    const double first = connect_and_close(context);
    double longest = 0;
    for (int i = 0; i < kConnects; ++i) {
      usleep(100'000);
      longest = std::max(longest, connect_and_close(context));
    }
    std::printf("{\"first_ms\": %.1f, \"longest_ms\": %.1f, \"connects\": %d}\n", first, longest,
                kConnects);
  }
  e2e::require(wireup_context_close(context, 5 * kSecond), "close");
  return 0;
}
