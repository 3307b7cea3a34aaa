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

#include "softhca/hca/arena.hpp"
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

/// Serves other processes. Its thread, "softhca-relay", sleeps from offer() until one of them
/// calls, so that the program need not: it may compute, or wait for an event, for as long as it
/// likes.
class Relay {
 public:
  /// The block that requests go through is taken from `arena` at the first call.
  Relay(Registry& registry, RingArena& arena, std::uint32_t self, RegisteredMemory& memory)
      : registry_(&registry), arena_(&arena), self_(self), memory_(&memory) {}
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() { stop(); }

  /// Called when memory is registered; cheap but for the first time. Any thread. If there can be no
  /// thread it says so on stderr and the process goes without.
  void offer();
  /// Refuses further requests and ends the thread. The last call to this object.
  void stop();

 private:
  void begin();
  void run();
  bool wait_for_call();
  void answer_call(RelayState answer);
  void serve();
  [[nodiscard]] RelayRecord::Result execute(const RelayRecord& record);

  /// Of our record in the registry.
  [[nodiscard]] std::atomic<RelayState>& state() const;

  Registry* registry_;
  RingArena* arena_;
  std::uint32_t self_;
  RegisteredMemory* memory_;
  std::uint64_t place_ = 0;
  std::atomic<RelayRecord*> record_{nullptr};  // of place_, for stop()
  std::once_flag begun_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// Asks the process of `token` to copy min(local.total(), remote.total()) bytes to (`write`) or
/// from its memory. Denied when it offers no relay; Gone when it is dead, stopped, or does not
/// answer for a second.
CopyResult copy_by_relay(const Registry& registry, std::uint32_t self, std::uint32_t token,
                         bool write, const SegmentList& local, const SegmentList& remote);

}  // namespace softhca::hca
