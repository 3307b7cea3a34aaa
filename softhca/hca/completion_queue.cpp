// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/completion_queue.hpp"

#include <cerrno>

#include "softhca/hca/robust_lock.hpp"
#include "softhca/hca/runtime.hpp"

namespace softhca::hca {
namespace {

std::uint64_t ring_bytes(std::uint32_t cqe) {
  return cq_ring_size(cqe) * kCqeStride;
}

/// As a driver would pin them: 64 bytes an entry.
std::uint64_t ring_pages(std::uint32_t cqe) {
  return page_up(std::uint64_t{cq_ring_size(cqe)} * sizeof(Cqe)) / 4096;
}

}  // namespace

CompletionQueue::CompletionQueue(Runtime& runtime, std::uint32_t slot)
    : runtime_(&runtime), slot_(slot), consumer_(runtime.registry(), slot, runtime.token()) {}

std::unique_ptr<CompletionQueue> CompletionQueue::create(Runtime& runtime, std::uint32_t cqe,
                                                         ChannelName channel, ChannelName async,
                                                         int& error) {
  error = EINVAL;
  if (cqe == 0 || cqe > kMaxCqe) {
    return nullptr;
  }
  error = ENOMEM;
  if (!runtime.memlock().charge(ring_pages(cqe))) {
    return nullptr;
  }
  const std::uint32_t slot = runtime.take_slot(runtime.cq_slots());
  const std::uint64_t ring = slot == kNone ? 0 : runtime.arena().take(ring_bytes(cqe));
  if (ring == 0) {
    if (slot != kNone) {
      runtime.cq_slots().give_back(slot);
    }
    runtime.memlock().uncharge(ring_pages(cqe));
    return nullptr;
  }
  auto cq = std::unique_ptr<CompletionQueue>(new CompletionQueue(runtime, slot));
  cq->cqe_ = cqe;
  CqRecord& record = runtime.registry().cq(slot);
  cq->generation_ = record.generation.fetch_add(1) + 1;
  record.ring = ring;
  record.ring_size.store(cq_ring_size(cqe));
  record.cqe = cqe;
  record.channel = channel;
  record.async = async;
  record.overrun.store(0);
  record.armed.store(static_cast<std::uint32_t>(Armed::No));
  record.timestamps.store(0);
  record.head.store(0);
  record.head_seen = 0;
  record.tail.store(0);
  record.owner.store(runtime.token(), std::memory_order_release);
  error = 0;
  return cq;
}

CompletionQueue::~CompletionQueue() {
  runtime_->memlock().uncharge(ring_pages(cqe_));
  CqRecord& record = runtime_->registry().cq(slot_);
  std::uint32_t ours = runtime_->token();
  if (record.generation.load() != generation_ || !record.owner.compare_exchange_strong(ours, 0)) {
    return;  // the process is exiting and has left the fabric
  }
  {
    // A producer that saw the old owner is done with the ring once it has given the lock back.
    const RobustGuard guard(record.producer, runtime_->registry().processes(), ours);
  }
  runtime_->arena().give_back(record.ring, ring_bytes(cqe_));
  runtime_->cq_slots().give_back(slot_);
}

int CompletionQueue::poll(int count, ibv_wc* out) {
  return consumer_.poll(count, out);
}

int CompletionQueue::take(Cqe& out) {
  return consumer_.take(out);
}

void CompletionQueue::keep_times() {
  runtime_->registry().cq(slot_).timestamps.store(1);
}

void CompletionQueue::arm(bool solicited_only) {
  consumer_.arm(solicited_only);
}

int CompletionQueue::resize(std::uint32_t cqe) {
  if (cqe == 0 || cqe > kMaxCqe) {
    return EINVAL;
  }
  if (!runtime_->memlock().charge(ring_pages(cqe))) {
    return ENOMEM;
  }
  const std::uint64_t old_ring = runtime_->registry().cq(slot_).ring;
  const std::uint64_t new_ring = runtime_->arena().take(ring_bytes(cqe));
  if (new_ring == 0 || !consumer_.move_ring(new_ring, cqe)) {
    runtime_->memlock().uncharge(ring_pages(cqe));
    if (new_ring != 0) {
      runtime_->arena().give_back(new_ring, ring_bytes(cqe));
    }
    return new_ring == 0 ? ENOMEM : EINVAL;
  }
  runtime_->arena().give_back(old_ring, ring_bytes(cqe_));
  runtime_->memlock().uncharge(ring_pages(cqe_));
  cqe_ = cqe;
  return 0;
}

}  // namespace softhca::hca
