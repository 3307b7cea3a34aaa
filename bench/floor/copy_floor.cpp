// SPDX-License-Identifier: BSD-3-Clause
//
// The floor under any message between two processes that is moved by the kernel: one
// process_vm_writev() of 8 bytes into the memory of a process that sleeps. Nothing is waited for
// and nobody is told, which a message cannot do without.
//
// copy_floor [CALLS] prints one line of JSON with the time of a call, in microseconds: the median
// over short batches, since a clock read costs a share of a call.
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "figures.hpp"

namespace {

constexpr int kBatch = 20;

/// In its own page, of which the child has a copy of its own once it has written there.
alignas(4096) std::array<std::uint64_t, 512> target{};

[[noreturn]] void sleep_for_ever(int ready) {
  target[0] = 1;
  const char word = 'r';
  if (::write(ready, &word, 1) != 1) {
    ::_exit(1);
  }
  for (;;) {
    ::pause();
  }
}

bool write_word(pid_t to, std::uint64_t value) {
  const iovec from{&value, sizeof value};
  const iovec there{target.data(), sizeof value};
  return ::process_vm_writev(to, &from, 1, &there, 1, 0) == static_cast<ssize_t>(sizeof value);
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 40000;
  std::array<int, 2> ready{};
  if (calls < kBatch || ::pipe(ready.data()) != 0) {
    std::fprintf(stderr, "usage: copy_floor [CALLS >= %d]\n", kBatch);
    return 2;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    sleep_for_ever(ready[1]);
  }
  char word = 0;
  int status = child > 0 && ::read(ready[0], &word, 1) == 1 ? 0 : 1;
  std::vector<double> times;
  for (int done = 0; done < calls && status == 0; done += kBatch) {
    const auto start = bench::Clock::now();
    for (int i = 0; i < kBatch; ++i) {
      if (!write_word(child, static_cast<std::uint64_t>(i))) {
        std::fprintf(stderr, "copy_floor: process_vm_writev failed: %s\n", std::strerror(errno));
        status = 1;
        break;
      }
    }
    times.push_back(bench::microseconds_since(start) / kBatch);
  }
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  if (status == 0) {
    std::printf("{\"stack\": \"copy_floor\", \"bytes\": 8, \"p50_us\": %.3f, \"p99_us\": %.3f}\n",
                bench::quantile(times, 0.5), bench::quantile(times, 0.99));
  }
  return status;
}
