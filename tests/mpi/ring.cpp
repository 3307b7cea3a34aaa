// SPDX-License-Identifier: BSD-3-Clause
//
// Each rank sends to the next and receives from the one before it: first a token that goes round
// one rank after the other, then messages of many sizes at once, blocking and not.
//
// ring [ROUNDS]
#include <string>

#include "job.hpp"

namespace mpi_tests {
namespace {

constexpr int kTokenTag = 1;
constexpr int kDataTag = 2;

/// Around the borders of inline data, eager messages and rendezvous of the usual libraries.
constexpr std::size_t kSizes[] = {0,    1,    7,     64,    65,    255,   256,    1023,   1024,
                                  4095, 4096, 12287, 12288, 65535, 65536, 262144, 1048576};

void pass_token(Job& job) {
  const int next = shifted(job.rank(), 1, job.size());
  const int before = shifted(job.rank(), -1, job.size());
  int token = 0;
  if (job.rank() == 0) {
    MPI_Send(&token, 1, MPI_INT, next, kTokenTag, MPI_COMM_WORLD);
  }
  MPI_Recv(&token, 1, MPI_INT, before, kTokenTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const int expected = job.rank() == 0 ? job.size() - 1 : job.rank() - 1;
  job.require(token == expected,
              "the token is " + std::to_string(token) + ", not " + std::to_string(expected));
  token = job.rank();
  if (job.rank() != 0) {
    MPI_Send(&token, 1, MPI_INT, next, kTokenTag, MPI_COMM_WORLD);
  }
}

void shift_blocking(Job& job, std::uint64_t round, std::size_t length) {
  const int next = shifted(job.rank(), 1, job.size());
  const int before = shifted(job.rank(), -1, job.size());
  Bytes out(length);
  Bytes in(length);
  job.fill(out, job.rank(), next, round);
  const int count = static_cast<int>(length);
  MPI_Sendrecv(out.data(), count, MPI_BYTE, next, kDataTag, in.data(), count, MPI_BYTE, before,
               kDataTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  job.check(in, before, job.rank(), round);
}

/// All sizes in flight in both directions at once.
void exchange_with_both(Job& job, std::uint64_t round) {
  const int peers[] = {shifted(job.rank(), 1, job.size()), shifted(job.rank(), -1, job.size())};
  std::vector<Bytes> in;
  std::vector<Bytes> out;
  std::vector<MPI_Request> requests;
  in.reserve(2 * std::size(kSizes));
  out.reserve(2 * std::size(kSizes));
  // Two ranks are each other's both neighbours: the direction is in the tag.
  for (int direction = 0; direction < 2; ++direction) {
    for (const std::size_t length : kSizes) {
      Bytes& buffer = in.emplace_back(length);
      MPI_Irecv(buffer.data(), static_cast<int>(length), MPI_BYTE, peers[1 - direction],
                kDataTag + 1 + direction, MPI_COMM_WORLD, &requests.emplace_back());
    }
  }
  for (int direction = 0; direction < 2; ++direction) {
    for (const std::size_t length : kSizes) {
      Bytes& buffer = out.emplace_back(length);
      job.fill(buffer, job.rank(), peers[direction], round + out.size());
      MPI_Isend(buffer.data(), static_cast<int>(length), MPI_BYTE, peers[direction],
                kDataTag + 1 + direction, MPI_COMM_WORLD, &requests.emplace_back());
    }
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const int from = peers[i < std::size(kSizes) ? 1 : 0];
    job.check(in[i], from, job.rank(), round + i + 1);
  }
}

}  // namespace
}  // namespace mpi_tests

int main(int argc, char** argv) {
  mpi_tests::Job job("ring", argc, argv);
  const int rounds = job.number(0, 3);
  for (int round = 0; round < rounds; ++round) {
    mpi_tests::pass_token(job);
    const std::uint64_t number = static_cast<std::uint64_t>(round) * 1000;
    for (const std::size_t length : mpi_tests::kSizes) {
      mpi_tests::shift_blocking(job, number, length);
    }
    mpi_tests::exchange_with_both(job, number);
  }
  job.finish();
  return 0;
}
