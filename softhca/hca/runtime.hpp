// SPDX-License-Identifier: BSD-3-Clause
// One process on one emulated host: what all its verbs objects share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softhca/fabric/counters.hpp"
#include "softhca/fabric/fabric_view.hpp"
#include "softhca/hca/arena.hpp"
#include "softhca/hca/faults.hpp"
#include "softhca/hca/memlock.hpp"
#include "softhca/hca/pending.hpp"
#include "softhca/hca/port_cache.hpp"
#include "softhca/hca/process_memory.hpp"
#include "softhca/hca/registry.hpp"
#include "softhca/hca/slots.hpp"
#include "softhca/hca/ud_wire.hpp"

namespace softhca::hca {

class Qp;

/// How long it is believed that a process lives which was seen alive: some 50 ms where its memory
/// is touched next, which fails if it is dead; some 4 ms where it is not, as long as hardware takes
/// to hear of a death; not at all.
enum class Belief : std::uint32_t { None = 0, Short = 1, Usual = 12 };  // ticks of 4.2 ms

/// Any thread, unless a method says otherwise.
class Runtime {
 public:
  /// Attaches to the fabric in `dir` as a process of `host` and enrols it. nullptr with errno; the
  /// errors are those of FabricView::attach and Registry.
  static std::unique_ptr<Runtime> open(const char* dir, const char* host);

  /// The runtime of this process by SOFTHCA_DIR and SOFTHCA_HOST, made at the first call. nullptr
  /// with errno when there is no fabric there; the next call tries again. It is never destroyed;
  /// when the process exits, its objects are taken out of the fabric. A forked child starts anew.
  static Runtime* instance();

  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  [[nodiscard]] Registry& registry() { return *registry_; }
  [[nodiscard]] const FabricView& view() const { return *view_; }
  [[nodiscard]] PortCache& ports() { return *ports_; }
  [[nodiscard]] Faults& faults() { return *faults_; }
  [[nodiscard]] UdWire& ud_wire() { return *ud_wire_; }
  [[nodiscard]] PendingWorker& pending() { return *pending_; }
  [[nodiscard]] Memlock& memlock() { return memlock_; }
  [[nodiscard]] ProcessMemory& memory() { return *memory_; }
  [[nodiscard]] const std::string& host() const { return host_; }
  /// SOFTHCA_DIR as an absolute path.
  [[nodiscard]] const std::string& dir() const { return registry_->dir(); }
  [[nodiscard]] std::uint32_t token() const { return token_; }

  /// Takes a slot, clearing away dead processes if the table looks full. kNone: it is full.
  std::uint32_t take_slot(SlotPool& pool);
  [[nodiscard]] RingArena& arena() { return *arena_; }
  [[nodiscard]] SlotPool& qp_slots() { return *qp_slots_; }
  [[nodiscard]] SlotPool& cq_slots() { return *cq_slots_; }
  [[nodiscard]] SlotPool& srq_slots() { return *srq_slots_; }
  [[nodiscard]] SlotPool& mr_slots() { return *mr_slots_; }
  [[nodiscard]] SlotPool& channel_slots() { return *channel_slots_; }

  void count(PortIndex port, Counter counter, std::uint64_t n = 1) {
    counters_->add(port, counter, n);
  }
  [[nodiscard]] Counters& counters() { return *counters_; }

  /// The pid of a process that owns an object, 0 when it has died or become another program.
  std::uint32_t living_pid(std::uint32_t token, Belief belief);

  /// This process's QPs, for those who must visit all of them.
  void add_qp(Qp& qp);
  void remove_qp(Qp& qp);
  template <typename Visit>
  void for_each_qp(Visit&& visit) {
    const std::lock_guard lock(qps_mutex_);
    for (Qp* qp : qps_) {
      visit(*qp);
    }
  }

 private:
  Runtime() = default;

  std::string host_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<FabricView> view_;
  std::unique_ptr<Counters> counters_;
  std::unique_ptr<Faults> faults_;
  std::unique_ptr<PortCache> ports_;
  std::uint64_t nonce_ = 0;
  std::uint32_t token_ = 0;
  std::unique_ptr<RingArena> arena_;
  std::unique_ptr<SlotPool> qp_slots_;
  std::unique_ptr<SlotPool> cq_slots_;
  std::unique_ptr<SlotPool> srq_slots_;
  std::unique_ptr<SlotPool> mr_slots_;
  std::unique_ptr<SlotPool> channel_slots_;
  Memlock memlock_;
  std::array<std::atomic<std::uint64_t>, kMaxProcesses> verified_{};  // token << 32 | ticks
  std::mutex qps_mutex_;
  std::vector<Qp*> qps_;
  std::unique_ptr<UdWire> ud_wire_;
  std::unique_ptr<PendingWorker> pending_;
  std::unique_ptr<ProcessMemory> memory_;
};

}  // namespace softhca::hca
