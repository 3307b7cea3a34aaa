// SPDX-License-Identifier: BSD-3-Clause
//
// Two ranks over whatever transport the MPI library is told to use, so that two transports are
// compared under the same library, with the same program.
//
//   mpi_pair latency BYTES ROUNDS     half a round trip of MPI_Send and MPI_Recv, in microseconds
//   mpi_pair bandwidth BYTES ROUNDS   windows of messages one way, answered by an empty message;
//                                     MB (10^6 bytes) per second
//
// Rank 0 prints one line of JSON with the median over the rounds. Both ranks check what arrived.
#include <mpi.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "rounds.hpp"

namespace {

constexpr int kWindow = 16;

using Buffer = std::vector<std::uint8_t>;

[[noreturn]] void end(const char* text) {
  std::fprintf(stderr, "mpi_pair: %s\n", text);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void expect(const Buffer& buffer, std::uint8_t value) {
  for (const std::uint8_t byte : buffer) {
    if (byte != value) {
      end("a byte arrived that was not sent");
    }
  }
}

/// What a rank fills its messages with.
std::uint8_t mark(int rank) {
  return static_cast<std::uint8_t>(0xA1 + rank);
}

std::vector<double> latency(int rank, int bytes, int rounds) {
  const int peer = 1 - rank;
  const Buffer out(static_cast<std::size_t>(bytes), mark(rank));
  Buffer in(static_cast<std::size_t>(bytes));
  std::vector<double> times = bench::half_round_trips(rank, rounds, [&](int) {
    if (rank == 0) {
      MPI_Send(out.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
      MPI_Recv(in.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out.data(), bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
  });
  expect(in, mark(peer));
  return times;
}

std::vector<double> bandwidth(int rank, int bytes, int rounds) {
  Buffer data(static_cast<std::size_t>(bytes), rank == 0 ? mark(0) : 0);
  std::array<MPI_Request, kWindow> requests{};
  std::vector<double> rates;
  const auto begin = bench::Clock::now();
  for (int round = 0; bench::go_on(rank, round, rounds, begin); ++round) {
    const auto start = bench::Clock::now();
    for (MPI_Request& request : requests) {
      if (rank == 0) {
        MPI_Isend(data.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
      } else {
        MPI_Irecv(data.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
      }
    }
    MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
    if (rank == 0) {
      MPI_Recv(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Send(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    if (round > 0) {  // the first one sets the transport up
      rates.push_back(static_cast<double>(bytes) * kWindow / bench::microseconds_since(start));
    }
  }
  expect(data, mark(0));
  return rates;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string_view what = argc == 4 ? argv[1] : "";
  const int bytes = argc == 4 ? std::atoi(argv[2]) : 0;
  const int rounds = argc == 4 ? std::atoi(argv[3]) : 0;
  if (size != 2 || bytes < 1 || rounds < 2 || (what != "latency" && what != "bandwidth")) {
    end("usage: mpirun -n 2 mpi_pair latency|bandwidth BYTES ROUNDS");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const bool timing = what == "latency";
  std::vector<double> samples =
      timing ? latency(rank, bytes, rounds) : bandwidth(rank, bytes, rounds);
  if (rank == 0) {
    std::printf("{\"stack\": \"mpi\", \"bytes\": %d, \"%s\": %.3f}\n", bytes,
                timing ? "p50_us" : "mb_per_s", bench::quantile(samples, 0.5));
  }
  MPI_Finalize();
  return 0;
}
