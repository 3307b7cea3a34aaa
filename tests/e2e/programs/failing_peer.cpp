// SPDX-License-Identifier: BSD-3-Clause
//
// failing_peer kill|stop VICTIM TIMEOUT_MS: a PMIx-only program. Rank VICTIM dies (SIGKILL) or
// stops (SIGSTOP) as soon as its card is out; every other rank connects to all ranks at once. Each
// survivor prints one line of JSON: whom it reached, what failed at which step and after how long,
// and how long wireup_context_close() took. A stopped victim is killed by its child in the end, so
// that mpirun can end.
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include "e2e/programs/report.hpp"

namespace {

using e2e::kSecond;

[[noreturn]] void fail_as_asked(bool kill) {
  if (kill) {
    std::raise(SIGKILL);
  }
  const pid_t self = getpid();
  if (fork() == 0) {
    // The stopped process cannot end itself.
    sleep(20);
    ::kill(self, SIGKILL);
    _exit(0);
  }
  std::raise(SIGSTOP);
  _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: failing_peer kill|stop VICTIM TIMEOUT_MS\n");
    return 2;
  }
  const bool kill = std::strcmp(argv[1], "kill") == 0;
  const auto victim = static_cast<std::uint32_t>(std::atoi(argv[2]));
  const std::uint64_t timeout = std::strtoull(argv[3], nullptr, 10) * e2e::kMillisecond;

  wireup_config_t config{};
  e2e::require(wireup_config_init(&config, sizeof config), "config");
  config.flags = WIREUP_FLAG_HELPER_THREAD;
  wireup_context_t* context = nullptr;
  e2e::require(wireup_context_open(&config, &context), "open");
  const std::uint32_t rank = wireup_rank(context);
  const std::uint32_t size = wireup_size(context);
  if (rank == victim) {
    usleep(300'000);  // the card is on its way; requests of the others arrive meanwhile
    fail_as_asked(kill);
  }

  // Long enough for the victim to be gone: what is tested is a connect to a dead rank.
  usleep(1'500'000);
  const e2e::Stopwatch watch;
  std::uint32_t waiting = 0;
  for (std::uint32_t peer = 0; peer < size; ++peer) {
    if (peer != rank) {
      const wireup_peer_t target{nullptr, peer};
      e2e::require(wireup_connect(context, &target, timeout), "connect");
      ++waiting;
    }
  }
  std::uint32_t connected = 0;
  std::string failures;
  std::string separator;
  const double limit_ms = static_cast<double>(timeout) / 1e6 + 10'000;
  while (waiting > 0 && watch.milliseconds() < limit_ms) {
    wireup_event_t event{};
    if (!e2e::next_event(context, kSecond / 10, event)) {
      continue;
    }
    if (event.type == WIREUP_EVENT_CONNECTED) {
      ++connected;
      --waiting;
    } else if (event.type == WIREUP_EVENT_FAILED) {
      --waiting;
      failures += separator + "{\"rank\": " + std::to_string(event.rank) +
                  ", \"step\": " + e2e::quoted(wireup_step_str(event.step)) +
                  ", \"status\": " + e2e::quoted(wireup_status_name(event.status)) +
                  ", \"text\": " + e2e::quoted(event.text) +
                  ", \"after_ms\": " + std::to_string(watch.milliseconds()) + "}";
      separator = ", ";
    }
  }
  // All survivors have reached each other when the slowest attempt has ended.
  usleep(500'000);
  const e2e::Stopwatch closing;
  const wireup_status_t closed = wireup_context_close(context, 4 * kSecond);
  std::printf(
      "{\"rank\": %u, \"connected\": %u, \"unanswered\": %u, \"failures\": [%s], "
      "\"close\": \"%s\", \"close_ms\": %.0f}\n",
      rank, connected, waiting, failures.c_str(), wireup_status_name(closed),
      closing.milliseconds());
  return 0;
}
