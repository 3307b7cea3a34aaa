// SPDX-License-Identifier: BSD-3-Clause
// What the MPI programs here share: start and end of a job, patterned data, and how a wrong byte is
// reported. Every byte that travels is a function of who sent it, to whom and as which message, so
// a lost, repeated, misplaced or torn message cannot look right.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mpi_tests {

using Bytes = std::vector<std::uint8_t>;

/// One MPI job from MPI_Init to MPI_Finalize, both on the thread that makes the object.
///
/// Arguments of every program: numbers in an order of its own, and `--flip`, which makes rank 1
/// send one wrong byte, so that a test can see the job fail.
class Job {
 public:
  /// Ends the process with status 4 when the library offers less than `thread_level`.
  Job(const char* name, int argc, char** argv, int thread_level = MPI_THREAD_SINGLE);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// The number at `position` of the command line, or `fallback`. Below 1 is an error.
  [[nodiscard]] int number(std::size_t position, int fallback) const;

  /// Fills `data` with what `from` sends to `to` as message `number`. Any thread.
  void fill(std::span<std::uint8_t> data, int from, int to, std::uint64_t number);
  /// Ends the job with a message unless `data` is what fill() made. Counts it. Any thread.
  void check(std::span<const std::uint8_t> data, int from, int to, std::uint64_t number);
  /// Ends the job with `text` unless `condition` holds. Any thread.
  void require(bool condition, const std::string& text) const;

  /// Collective: adds up what all ranks checked; rank 0 prints the sum. Comes last.
  void finish() const;

 private:
  [[noreturn]] void fail(const std::string& text) const;

  std::string name_;
  int rank_ = 0;
  int size_ = 0;
  std::vector<int> numbers_;
  std::atomic<bool> flip_{false};
  std::atomic<std::uint64_t> messages_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

/// Rank `by` places after `rank` (before it, if negative) in a circle of `size` ranks.
int shifted(int rank, int by, int size);

}  // namespace mpi_tests
