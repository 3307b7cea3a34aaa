// SPDX-License-Identifier: BSD-3-Clause
#include "job.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace mpi_tests {
namespace {

/// The finaliser of SplitMix64: neighbouring inputs give unrelated outputs.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t key_of(int from, int to, std::uint64_t number) {
  return mixed(mixed(mixed(static_cast<std::uint64_t>(from)) ^ static_cast<std::uint64_t>(to)) ^
               number);
}

/// Calls use(offset, eight bytes) for every started eight bytes of a pattern of `length` bytes.
template <typename Use>
void for_each_word(std::uint64_t key, std::size_t length, Use&& use) {
  for (std::size_t at = 0; at < length; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = mixed(key + at);
    std::array<std::uint8_t, sizeof word> bytes{};
    std::memcpy(bytes.data(), &word, sizeof word);
    use(at, std::span<const std::uint8_t>(bytes).first(std::min(sizeof word, length - at)));
  }
}

}  // namespace

Job::Job(const char* name, int argc, char** argv, int thread_level) : name_(name) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, thread_level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  if (provided < thread_level) {
    std::fprintf(stderr, "%s: thread level %d is needed, MPI provides %d\n", name, thread_level,
                 provided);
    MPI_Finalize();
    std::exit(4);
  }
  for (const char* argument : std::span(argv, static_cast<std::size_t>(argc)).subspan(1)) {
    if (std::string_view(argument) == "--flip") {
      flip_ = rank_ == 1;
    } else {
      numbers_.push_back(std::atoi(argument));
      require(numbers_.back() >= 1, std::string(argument) + " is not a number of at least 1");
    }
  }
}

Job::~Job() {
  MPI_Finalize();
}

int Job::number(std::size_t position, int fallback) const {
  return position < numbers_.size() ? numbers_[position] : fallback;
}

void Job::fill(std::span<std::uint8_t> data, int from, int to, std::uint64_t number) {
  for_each_word(key_of(from, to, number), data.size(), [&](std::size_t at, auto bytes) {
    std::copy(bytes.begin(), bytes.end(), data.begin() + static_cast<std::ptrdiff_t>(at));
  });
  if (!data.empty() && flip_.exchange(false)) {
    data.back() ^= 1;
  }
}

void Job::check(std::span<const std::uint8_t> data, int from, int to, std::uint64_t number) {
  for_each_word(key_of(from, to, number), data.size(), [&](std::size_t at, auto bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (data[at + i] != bytes[i]) {
        std::array<char, 200> text{};
        std::snprintf(text.data(), text.size(),
                      "byte %zu of %zu in message %llu from rank %d to rank %d is 0x%02x, expected "
                      "0x%02x",
                      at + i, data.size(), static_cast<unsigned long long>(number), from, to,
                      data[at + i], bytes[i]);
        fail(text.data());
      }
    }
  });
  messages_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(data.size(), std::memory_order_relaxed);
}

void Job::require(bool condition, const std::string& text) const {
  if (!condition) {
    fail(text);
  }
}

void Job::fail(const std::string& text) const {
  std::fprintf(stderr, "%s: rank %d: %s\n", name_.c_str(), rank_, text.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void Job::finish() const {
  const std::array<unsigned long long, 2> mine{messages_.load(), bytes_.load()};
  std::array<unsigned long long, 2> all{};
  MPI_Reduce(mine.data(), all.data(), 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank_ == 0) {
    std::printf("%s: %d ranks, %llu messages, %llu bytes, all right\n", name_.c_str(), size_,
                all[0], all[1]);
  }
}

int shifted(int rank, int by, int size) {
  return ((rank + by) % size + size) % size;
}

}  // namespace mpi_tests
