// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided communication: puts and gets between fences, between post and start, and under locks;
// accumulation; a counter by fetch-and-add, a mutex by compare-and-swap.
//
// rma [ROUNDS [BLOCK]]
#include <algorithm>
#include <numeric>
#include <string>

#include "job.hpp"

namespace mpi_tests {
namespace {

/// A window of `length` bytes per rank, zero at first.
class Window {
 public:
  explicit Window(std::size_t length) : length_(length) {
    MPI_Win_allocate(static_cast<MPI_Aint>(length), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base_,
                     &window_);
    std::fill_n(base_, length, std::uint8_t{0});
    MPI_Barrier(MPI_COMM_WORLD);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() { MPI_Win_free(&window_); }

  [[nodiscard]] MPI_Win handle() const { return window_; }
  [[nodiscard]] std::span<std::uint8_t> local() const { return {base_, length_}; }
  [[nodiscard]] std::span<std::uint8_t> block(int index, std::size_t length) const {
    return local().subspan(static_cast<std::size_t>(index) * length, length);
  }

 private:
  std::size_t length_;
  std::uint8_t* base_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

MPI_Aint place(int index, std::size_t length) {
  return static_cast<MPI_Aint>(static_cast<std::size_t>(index) * length);
}

/// Every rank puts a block into everybody's window, then gets what it has put.
void fenced(Job& job, std::uint64_t round, std::size_t length) {
  const auto size = static_cast<std::size_t>(job.size());
  const Window window(size * length);
  Bytes out(size * length);
  Bytes back(size * length);
  const int count = static_cast<int>(length);
  MPI_Win_fence(MPI_MODE_NOPRECEDE, window.handle());
  for (int to = 0; to < job.size(); ++to) {
    std::uint8_t* data = out.data() + place(to, length);
    job.fill({data, length}, job.rank(), to, round);
    MPI_Put(data, count, MPI_BYTE, to, place(job.rank(), length), count, MPI_BYTE, window.handle());
  }
  MPI_Win_fence(0, window.handle());
  for (int from = 0; from < job.size(); ++from) {
    job.check(window.block(from, length), from, job.rank(), round);
  }
  MPI_Win_fence(MPI_MODE_NOSTORE, window.handle());
  for (int of = 0; of < job.size(); ++of) {
    MPI_Get(back.data() + place(of, length), count, MPI_BYTE, of, place(job.rank(), length), count,
            MPI_BYTE, window.handle());
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window.handle());
  job.require(back == out, "what MPI_Get brought is not what MPI_Put had put");
}

/// Puts to the next rank only, in epochs of post, start, complete and wait.
void started(Job& job, std::uint64_t round, std::size_t length) {
  const int next = shifted(job.rank(), 1, job.size());
  const int before = shifted(job.rank(), -1, job.size());
  const Window window(length);
  MPI_Group all;
  MPI_Group origin;
  MPI_Group target;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &before, &origin);
  MPI_Group_incl(all, 1, &next, &target);
  Bytes out(length);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    job.fill(out, job.rank(), next, round + epoch);
    MPI_Win_post(origin, 0, window.handle());
    MPI_Win_start(target, 0, window.handle());
    MPI_Put(out.data(), static_cast<int>(length), MPI_BYTE, next, 0, static_cast<int>(length),
            MPI_BYTE, window.handle());
    MPI_Win_complete(window.handle());
    MPI_Win_wait(window.handle());
    job.check(window.local(), before, job.rank(), round + epoch);
  }
  MPI_Group_free(&origin);
  MPI_Group_free(&target);
  MPI_Group_free(&all);
}

/// Everybody adds to everybody's numbers; only the sum of all is right.
void accumulated(Job& job) {
  constexpr int kNumbers = 100;
  const Window window(kNumbers * sizeof(std::int64_t));
  std::vector<std::int64_t> mine(kNumbers);
  std::iota(mine.begin(), mine.end(), std::int64_t{1000} * job.rank());
  MPI_Win_fence(MPI_MODE_NOPRECEDE, window.handle());
  for (int to = 0; to < job.size(); ++to) {
    MPI_Accumulate(mine.data(), kNumbers, MPI_INT64_T, to, 0, kNumbers, MPI_INT64_T, MPI_SUM,
                   window.handle());
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window.handle());
  const std::int64_t size = job.size();
  for (std::int64_t i = 0; i < kNumbers; ++i) {
    const std::int64_t sum =
        reinterpret_cast<const std::int64_t*>(window.local().data())[static_cast<std::size_t>(i)];
    const std::int64_t expected = 1000 * size * (size - 1) / 2 + i * size;
    job.require(sum == expected, "number " + std::to_string(i) + " adds up to " +
                                     std::to_string(sum) + ", not " + std::to_string(expected));
  }
}

/// A counter at rank 0: every value is handed out once.
void counted(Job& job, int draws) {
  const Window window(sizeof(std::int64_t));
  std::vector<std::int64_t> drawn(static_cast<std::size_t>(draws));
  const std::int64_t one = 1;
  MPI_Win_lock_all(0, window.handle());
  for (std::int64_t& value : drawn) {
    MPI_Fetch_and_op(&one, &value, MPI_INT64_T, 0, 0, MPI_SUM, window.handle());
    MPI_Win_flush(0, window.handle());
  }
  MPI_Win_unlock_all(window.handle());
  std::vector<std::int64_t> all(drawn.size() * static_cast<std::size_t>(job.size()));
  MPI_Allgather(drawn.data(), draws, MPI_INT64_T, all.data(), draws, MPI_INT64_T, MPI_COMM_WORLD);
  job.require(std::is_sorted(drawn.begin(), drawn.end()), "the counter went backwards");
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    job.require(all[i] == static_cast<std::int64_t>(i),
                "the counter gave " + std::to_string(all[i]) + " at place " + std::to_string(i));
  }
}

/// A mutex at rank 0 guards a number that everybody reads, adds to and writes back.
void excluded(Job& job, int entries) {
  const Window window(2 * sizeof(std::int64_t));  // mutex, number
  const std::int64_t free = 0;
  const std::int64_t taken = 1 + job.rank();
  constexpr MPI_Aint kNumber = sizeof(std::int64_t);
  MPI_Win_lock_all(0, window.handle());
  for (int i = 0; i < entries; ++i) {
    std::int64_t found = -1;
    for (;;) {
      MPI_Compare_and_swap(&taken, &free, &found, MPI_INT64_T, 0, 0, window.handle());
      MPI_Win_flush(0, window.handle());
      if (found == free) {
        break;
      }
      // Libraries that carry out one-sided operations by messages do it in calls that look for
      // messages, which neither of the above needs to be at rank 0 itself.
      int any = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &any, MPI_STATUS_IGNORE);
    }
    std::int64_t number = 0;
    MPI_Get(&number, 1, MPI_INT64_T, 0, kNumber, 1, MPI_INT64_T, window.handle());
    MPI_Win_flush(0, window.handle());
    ++number;
    MPI_Put(&number, 1, MPI_INT64_T, 0, kNumber, 1, MPI_INT64_T, window.handle());
    MPI_Win_flush(0, window.handle());
    MPI_Fetch_and_op(&free, &found, MPI_INT64_T, 0, 0, MPI_REPLACE, window.handle());
    MPI_Win_flush(0, window.handle());
    job.require(found == taken, "the mutex of rank " + std::to_string(job.rank()) +
                                    " was held by " + std::to_string(found - 1));
  }
  MPI_Win_unlock_all(window.handle());
  MPI_Barrier(MPI_COMM_WORLD);
  if (job.rank() == 0) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window.handle());
    const std::int64_t sum = reinterpret_cast<const std::int64_t*>(window.local().data())[1];
    MPI_Win_unlock(0, window.handle());
    const std::int64_t expected = std::int64_t{entries} * job.size();
    job.require(sum == expected,
                std::to_string(expected) + " entries were counted as " + std::to_string(sum));
  }
}

}  // namespace
}  // namespace mpi_tests

int main(int argc, char** argv) {
  mpi_tests::Job job("rma", argc, argv);
  const int rounds = job.number(0, 2);
  const auto block = static_cast<std::size_t>(job.number(1, 20'000));
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t number = static_cast<std::uint64_t>(round) * 1000;
    mpi_tests::fenced(job, number, 8);
    mpi_tests::fenced(job, number + 1, block);
    mpi_tests::started(job, number + 2, block);
    mpi_tests::accumulated(job);
    mpi_tests::counted(job, 20);
    mpi_tests::excluded(job, 2);
  }
  job.finish();
  return 0;
}
