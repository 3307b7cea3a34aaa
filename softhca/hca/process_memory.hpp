// SPDX-License-Identifier: BSD-3-Clause
// The memory of the processes of the fabric, reached in the best way that the kernel allows.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "softhca/hca/layout.hpp"
#include "softhca/hca/memory.hpp"
#include "softhca/hca/registry.hpp"
#include "softhca/hca/relay.hpp"

namespace softhca::hca {

/// Any thread.
class ProcessMemory {
 public:
  ProcessMemory(Registry& registry, RingArena& arena, std::uint32_t self)
      : registry_(&registry), self_(self), relay_(registry, arena, self, registered_) {}

  /// Copies min(local.total(), remote.total()) bytes into the memory of the process `token`, which
  /// may be this one. Denied when the kernel refuses and the process offers no relay.
  CopyResult write(std::uint32_t token, const SegmentList& local, const SegmentList& remote) {
    return copy(token, true, local, remote);
  }
  /// The same the other way round.
  CopyResult read(std::uint32_t token, const SegmentList& local, const SegmentList& remote) {
    return copy(token, false, local, remote);
  }

  /// Finds out whether this process may reach any memory at all by process_vm_writev.
  void probe();

  [[nodiscard]] RegisteredMemory& registered() { return registered_; }
  [[nodiscard]] Relay& relay() { return relay_; }

 private:
  CopyResult copy(std::uint32_t token, bool write, const SegmentList& local,
                  const SegmentList& remote);
  void remember_denial(std::uint32_t token, int error);

  Registry* registry_;
  std::uint32_t self_;
  RegisteredMemory registered_;
  Relay relay_;
  std::atomic<bool> denied_all_{false};
  std::array<std::atomic<std::uint32_t>, kMaxProcesses> denied_{};  // tokens
};

}  // namespace softhca::hca
