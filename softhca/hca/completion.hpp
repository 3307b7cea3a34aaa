// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: the producing side, open to every process, and the consuming side of the
// process that owns the queue.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <mutex>
#include <span>

#include "softhca/hca/registry.hpp"

namespace softhca::hca {

/// Appends a completion to a CQ of process `owner` and sends the completion event if the queue is
/// armed for it. `self` is the token of the calling process. A full queue is in error from then on
/// and its owner gets IBV_EVENT_CQ_ERR. `data` is what the entry carries; there is none if
/// `entry.carried` is 0.
void push_completion(const Registry& registry, std::uint32_t self, std::uint32_t cq_slot,
                     std::uint32_t owner, const Cqe& entry, const CarriedData* data = nullptr);

/// The owner's end of a CQ whose record is filled in. Any thread.
class CqConsumer {
 public:
  CqConsumer(Registry& registry, std::uint32_t slot, std::uint32_t self)
      : registry_(&registry), record_(&registry.cq(slot)), slot_(slot), self_(self) {}

  /// Takes up to `count` completions; -EIO when the queue is in error and empty. Gives the
  /// processor away when it finds nothing time after time: the peer waited for needs it.
  int poll(int count, ibv_wc* out);

  /// Takes one completion whole: 1, 0 or -EIO as poll().
  int take(Cqe& out);

  /// Asks for one event for the next completion (or the next solicited or failed one). One that
  /// was queued before and has not been polled counts: the event comes at once.
  void arm(bool solicited_only);

  /// Takes back all completions of a QP that is reset or destroyed.
  void forget_qp(std::uint32_t qp_slot, std::uint32_t qp_generation);

  /// How many completions of an SRQ's receives are queued.
  std::uint32_t count_of_srq(std::uint32_t srq);

  /// Moves what is queued to a ring for `cqe` entries at `place`. False, and nothing is changed,
  /// when more is queued than would fit.
  bool move_ring(std::uint64_t place, std::uint32_t cqe);

 private:
  template <typename Store>
  int consume(int count, Store&& store);
  void free_work_request(const Cqe& entry);
  void put_down(const CqeSlot& slot) const;

  Registry* registry_;
  CqRecord* record_;
  std::uint32_t slot_;
  std::uint32_t self_;
  std::mutex mutex_;
};

/// Ring slots for a CQ of `cqe` entries.
std::uint32_t cq_ring_size(std::uint32_t cqe);

}  // namespace softhca::hca
