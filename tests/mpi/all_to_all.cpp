// SPDX-License-Identifier: BSD-3-Clause
//
// Everybody with everybody: first one message between each pair, all posted at once, so that all
// connections are made at the same time; then MPI_Alltoall and MPI_Alltoallv of growing blocks.
//
// all_to_all [ROUNDS [LARGEST BLOCK]]
#include "job.hpp"

namespace mpi_tests {
namespace {

constexpr int kTag = 7;

std::span<std::uint8_t> block(Bytes& all, std::size_t index, std::size_t length) {
  return std::span(all).subspan(index * length, length);
}

/// Numbers keep the phases' messages apart.
std::uint64_t number(int round, std::size_t length, unsigned phase) {
  return (static_cast<std::uint64_t>(round) << 32 | length) * 4 + phase;
}

void all_pairs_at_once(Job& job, int round, std::size_t length) {
  const auto size = static_cast<std::size_t>(job.size());
  Bytes in(size * length);
  Bytes out(size * length);
  std::vector<MPI_Request> requests;
  const int count = static_cast<int>(length);
  for (int i = 0; i < job.size(); ++i) {
    const int from = shifted(job.rank(), i, job.size());
    MPI_Irecv(block(in, static_cast<std::size_t>(from), length).data(), count, MPI_BYTE, from, kTag,
              MPI_COMM_WORLD, &requests.emplace_back());
  }
  for (int i = 0; i < job.size(); ++i) {
    const int to = shifted(job.rank(), i, job.size());
    const auto data = block(out, static_cast<std::size_t>(to), length);
    job.fill(data, job.rank(), to, number(round, length, 0));
    MPI_Isend(data.data(), count, MPI_BYTE, to, kTag, MPI_COMM_WORLD, &requests.emplace_back());
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (std::size_t from = 0; from < size; ++from) {
    job.check(block(in, from, length), static_cast<int>(from), job.rank(),
              number(round, length, 0));
  }
}

void all_to_all(Job& job, int round, std::size_t length) {
  const auto size = static_cast<std::size_t>(job.size());
  Bytes in(size * length);
  Bytes out(size * length);
  for (std::size_t to = 0; to < size; ++to) {
    job.fill(block(out, to, length), job.rank(), static_cast<int>(to), number(round, length, 1));
  }
  const int count = static_cast<int>(length);
  MPI_Alltoall(out.data(), count, MPI_BYTE, in.data(), count, MPI_BYTE, MPI_COMM_WORLD);
  for (std::size_t from = 0; from < size; ++from) {
    job.check(block(in, from, length), static_cast<int>(from), job.rank(),
              number(round, length, 1));
  }
}

/// Blocks of a length that depends on the pair; some are empty.
void all_to_all_uneven(Job& job, int round, std::size_t length) {
  const int size = job.size();
  const auto length_of = [&](int from, int to) {
    return static_cast<int>(length * static_cast<std::size_t>((3 * from + 5 * to) % 4) / 4);
  };
  const auto count = static_cast<std::size_t>(size);
  std::vector<int> out_lengths(count);
  std::vector<int> out_places(count);
  std::vector<int> in_lengths(count);
  std::vector<int> in_places(count);
  int out_total = 0;
  int in_total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    out_lengths[i] = length_of(job.rank(), static_cast<int>(i));
    in_lengths[i] = length_of(static_cast<int>(i), job.rank());
    out_places[i] = out_total;
    in_places[i] = in_total;
    out_total += out_lengths[i];
    in_total += in_lengths[i];
  }
  Bytes out(static_cast<std::size_t>(out_total));
  Bytes in(static_cast<std::size_t>(in_total));
  const auto part = [](Bytes& all, int place, int bytes) {
    return std::span(all).subspan(static_cast<std::size_t>(place), static_cast<std::size_t>(bytes));
  };
  for (std::size_t to = 0; to < count; ++to) {
    job.fill(part(out, out_places[to], out_lengths[to]), job.rank(), static_cast<int>(to),
             number(round, length, 2));
  }
  MPI_Alltoallv(out.data(), out_lengths.data(), out_places.data(), MPI_BYTE, in.data(),
                in_lengths.data(), in_places.data(), MPI_BYTE, MPI_COMM_WORLD);
  for (std::size_t from = 0; from < count; ++from) {
    job.check(part(in, in_places[from], in_lengths[from]), static_cast<int>(from), job.rank(),
              number(round, length, 2));
  }
}

}  // namespace
}  // namespace mpi_tests

int main(int argc, char** argv) {
  mpi_tests::Job job("all_to_all", argc, argv);
  const int rounds = job.number(0, 2);
  const auto largest = static_cast<std::size_t>(job.number(1, 65536));
  for (int round = 0; round < rounds; ++round) {
    mpi_tests::all_pairs_at_once(job, round, 8);
    for (std::size_t length = 1; length <= largest; length *= 16) {
      mpi_tests::all_pairs_at_once(job, round, length);
      mpi_tests::all_to_all(job, round, length);
      mpi_tests::all_to_all_uneven(job, round, length);
    }
  }
  job.finish();
  return 0;
}
