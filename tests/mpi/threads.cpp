// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_THREAD_MULTIPLE: several threads of each rank exchange messages at once, each in a circle of
// its own stride, while the main thread reduces on another communicator.
//
// threads [THREADS [ROUNDS]]
#include <string>
#include <thread>

#include "job.hpp"

namespace mpi_tests {
namespace {

constexpr std::size_t kSizes[] = {1, 64, 3000, 40'000, 300'000};

/// Thread `index` sends `index + 1` ranks ahead, blocking and not in turn.
void exchange(Job& job, int index, int rounds) {
  const int to = shifted(job.rank(), index + 1, job.size());
  const int from = shifted(job.rank(), -index - 1, job.size());
  for (int round = 0; round < rounds; ++round) {
    for (const std::size_t length : kSizes) {
      Bytes out(length);
      Bytes in(length);
      const auto number =
          static_cast<std::uint64_t>(index) * 1000 + static_cast<std::uint64_t>(round);
      job.fill(out, job.rank(), to, number);
      const int count = static_cast<int>(length);
      if (round % 2 == 0) {
        MPI_Sendrecv(out.data(), count, MPI_BYTE, to, index, in.data(), count, MPI_BYTE, from,
                     index, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        MPI_Request requests[2];
        MPI_Irecv(in.data(), count, MPI_BYTE, from, index, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out.data(), count, MPI_BYTE, to, index, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      }
      job.check(in, from, job.rank(), number);
    }
  }
}

void reduce(Job& job, MPI_Comm communicator, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const int mine = job.rank() + round;
    int sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, communicator);
    const int expected = job.size() * (job.size() - 1) / 2 + round * job.size();
    job.require(sum == expected, "sum " + std::to_string(round) + " is " + std::to_string(sum) +
                                     ", not " + std::to_string(expected));
  }
}

}  // namespace
}  // namespace mpi_tests

int main(int argc, char** argv) {
  mpi_tests::Job job("threads", argc, argv, MPI_THREAD_MULTIPLE);
  const int threads = job.number(0, 4);
  const int rounds = job.number(1, 6);
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  std::vector<std::thread> running;
  running.reserve(static_cast<std::size_t>(threads));
  for (int index = 0; index < threads; ++index) {
    running.emplace_back([&job, index, rounds] { mpi_tests::exchange(job, index, rounds); });
  }
  mpi_tests::reduce(job, other, rounds);
  for (std::thread& thread : running) {
    thread.join();
  }
  MPI_Comm_free(&other);
  job.finish();
  return 0;
}
