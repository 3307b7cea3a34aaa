// SPDX-License-Identifier: BSD-3-Clause
// Moving data between the memories of two processes, as the DMA engine of the emulated HCA.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "softhca/hca/layout.hpp"

namespace softhca::hca {

struct Segment {
  std::uint64_t address;
  std::uint64_t length;
};

/// A gather or scatter list of bounded length.
class SegmentList {
 public:
  static constexpr std::size_t kCapacity = kMaxSge + 1;  // one more for a GRH

  /// Empty segments are left out. False when the list is full.
  bool add(std::uint64_t address, std::uint64_t length);
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::span<const Segment> segments() const { return {segments_.data(), count_}; }

  /// The list without its first `bytes` bytes.
  [[nodiscard]] SegmentList skip(std::uint64_t bytes) const;
  /// The list cut to `bytes` bytes.
  [[nodiscard]] SegmentList first(std::uint64_t bytes) const;

 private:
  std::array<Segment, kCapacity> segments_;
  std::size_t count_ = 0;
  std::uint64_t total_ = 0;
};

/// The list as system calls take it.
using IoVectors = std::array<iovec, SegmentList::kCapacity>;
/// Returns how many of `vectors` are used.
unsigned long fill(const SegmentList& list, IoVectors& vectors);

enum class CopyResult {
  Ok,
  LocalFault,   // this process's memory is not there
  RemoteFault,  // the other's memory is not there
  Gone,         // the other process has no memory any more
  Denied,       // the kernel does not let us
};

/// Copies min(local.total(), remote.total()) bytes into process `pid`, which may be this one.
CopyResult write_to_process(std::uint32_t pid, const SegmentList& local, const SegmentList& remote);
/// The same the other way round.
CopyResult read_from_process(std::uint32_t pid, const SegmentList& local,
                             const SegmentList& remote);

/// Plain copy within this process that no sanitizer intercepts.
void copy_bytes(void* to, const void* from, std::size_t length);

}  // namespace softhca::hca
