// SPDX-License-Identifier: BSD-3-Clause
//
// What a connection costs with wireup: rank 0 connects to rank 1, waits for CONNECTED, closes,
// waits for DISCONNECTED, again and again. Only the connect is timed; the path is in the node's
// cache after the warm-up, as the floor's attributes are known beforehand. Both ranks make progress
// without sleeping, as the floor polls.
//
// Run on two ranks: connect_cost [CONNECTIONS]. Rank 0 prints one line of JSON with the time from
// wireup_connect() to the CONNECTED event at the active end, in microseconds.
#include <mpi.h>
#include <wireup/wireup.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "figures.hpp"

namespace {

constexpr int kWarmUp = 10;
constexpr std::uint64_t kSecond = 1'000'000'000;

void require(wireup_status_t status, const char* step) {
  if (status != WIREUP_OK) {
    std::fprintf(stderr, "connect_cost: %s: %s\n", step, wireup_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

void await(wireup_context_t* context, wireup_event_type_t wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (;;) {
    require(wireup_progress(context), "wireup_progress");
    wireup_event_t event{};
    event.struct_size = sizeof event;
    if (wireup_poll_event(context, &event) != 0) {
      if (event.type == wanted) {
        return;
      }
      std::fprintf(stderr, "connect_cost: event %d instead of %d: %s\n", event.type, wanted,
                   event.text);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (std::chrono::steady_clock::now() > deadline) {
      std::fprintf(stderr, "connect_cost: no event %d within 20 s\n", wanted);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
}

void print_report(std::vector<double>& times) {
  std::printf("{\"stack\": \"wireup\", \"connections\": %zu, \"p50_us\": %.2f, \"p99_us\": %.2f}\n",
              times.size(), bench::quantile(times, 0.5), bench::quantile(times, 0.99));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int connections = argc > 1 ? std::atoi(argv[1]) : 200;
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2 || connections < 1) {
    std::fprintf(stderr, "usage: mpirun -n 2 connect_cost [CONNECTIONS >= 1]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  wireup_context_t* context = nullptr;
  require(wireup_context_open(nullptr, &context), "wireup_context_open");
  const bool active = wireup_rank(context) == 0;
  const wireup_peer_t peer{nullptr, active ? 1U : 0U};
  MPI_Barrier(MPI_COMM_WORLD);

  std::vector<double> times;
  for (int i = 0; i < connections + kWarmUp; ++i) {
    const auto start = bench::Clock::now();
    if (active) {
      require(wireup_connect(context, &peer, 10 * kSecond), "wireup_connect");
    }
    await(context, WIREUP_EVENT_CONNECTED);
    const double elapsed = bench::microseconds_since(start);
    if (active && i >= kWarmUp) {
      times.push_back(elapsed);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (active) {
      require(wireup_close(context, &peer), "wireup_close");
    }
    await(context, WIREUP_EVENT_DISCONNECTED);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (active) {
    print_report(times);
  }
  require(wireup_context_close(context, 5 * kSecond), "wireup_context_close");
  MPI_Finalize();
  return 0;
}
