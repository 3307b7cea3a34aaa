// SPDX-License-Identifier: BSD-3-Clause
// The slow way into another process's memory, for when the kernel refuses process_vm_writev (other
// users, Yama, seccomp profiles): the data goes through a block of shared memory, and a thread of
// the other process moves it between the block and its own memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "softhca/hca/layout.hpp"
#include "softhca/hca/memory.hpp"
#include "softhca/hca/registry.hpp"

namespace softhca::hca {

/// The memory of this process that is registered, which is all that others may reach. Unlike the
/// records in the registry, no other process can write to it. Any thread.
class RegisteredMemory {
 public:
  /// A range may be added several times.
  void add(std::uint64_t address, std::uint64_t length, bool writable);
  /// Waits for a copy under way. `writable` as added.
  void remove(std::uint64_t address, std::uint64_t length, bool writable);

  /// Calls `copy()` while nothing is removed, if every segment lies in a region, a writable one for
  /// `write`. Otherwise returns false.
  template <typename Copy>
  bool with(const SegmentList& list, bool write, Copy&& copy) {
    const std::lock_guard lock(mutex_);
    if (!covers(list, write)) {
      return false;
    }
    copy();
    return true;
  }

 private:
  struct Range {
    std::uint64_t address;
    std::uint64_t length;
    bool writable;
    auto operator<=>(const Range&) const = default;
  };
  [[nodiscard]] bool covers(const SegmentList& list, bool write) const;

  std::mutex mutex_;
  std::multimap<std::uint64_t, Range> ranges_;  // by address
};

/// Serves other processes. The thread "softhca-relay" lives from start() to stop().
class Relay {
 public:
  Relay(Registry& registry, std::uint32_t self, RegisteredMemory& memory)
      : registry_(&registry), self_(self), memory_(&memory) {}
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() { stop(); }

  /// Offers the block at `place` of the arena, which belongs to this process.
  void start(std::uint64_t place);
  [[nodiscard]] bool running() const { return running_.load(std::memory_order_relaxed); }
  /// Refuses further requests and ends the thread.
  void stop();

 private:
  void run();
  [[nodiscard]] RelayRecord::Result execute();

  Registry* registry_;
  std::uint32_t self_;
  RegisteredMemory* memory_;
  std::uint64_t place_ = 0;
  RelayRecord* record_ = nullptr;
  std::atomic<bool> running_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// Asks the process of `token` to copy min(local.total(), remote.total()) bytes to (`write`) or
/// from its memory. Denied when it has no relay; Gone when it is dead, stopped, or does not answer
/// for a second.
CopyResult copy_by_relay(const Registry& registry, std::uint32_t self, std::uint32_t token,
                         bool write, const SegmentList& local, const SegmentList& remote);

}  // namespace softhca::hca
