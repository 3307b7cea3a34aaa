// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/completion_queue.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "softhca/hca/runtime.hpp"

namespace softhca::hca {
namespace {

std::uint64_t ring_pages(std::uint32_t ring) {
  return page_up(ring * kCqeStride) / 4096;
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
  const std::uint32_t ring = cq_ring_size(cqe);
  if (!runtime.memlock().charge(ring_pages(ring))) {
    return nullptr;
  }
  const std::uint32_t slot = runtime.take_slot(runtime.cq_slots());
  if (slot == kNone) {
    runtime.memlock().uncharge(ring_pages(ring));
    return nullptr;
  }
  auto cq = std::unique_ptr<CompletionQueue>(new CompletionQueue(runtime, slot));
  cq->pinned_pages_ = ring_pages(ring);
  cq->cqe_ = cqe;
  CqRecord& record = runtime.registry().cq(slot);
  cq->generation_ = record.generation.fetch_add(1) + 1;
  record.ring_size.store(ring);
  record.cqe = cqe;
  record.channel = channel;
  record.async = async;
  record.overrun.store(0);
  record.armed.store(static_cast<std::uint32_t>(Armed::No));
  record.head.store(0);
  record.tail.store(0);
  record.owner.store(runtime.token(), std::memory_order_release);
  error = 0;
  return cq;
}

CompletionQueue::~CompletionQueue() {
  runtime_->memlock().uncharge(pinned_pages_);
  CqRecord& record = runtime_->registry().cq(slot_);
  std::uint32_t ours = runtime_->token();
  if (record.generation.load() != generation_ || !record.owner.compare_exchange_strong(ours, 0)) {
    return;  // the process is exiting and has left the fabric
  }
  constexpr std::uint64_t kWorthReturning = 64;
  if (pinned_pages_ >= kWorthReturning && record.tail.load() != 0) {
    ::syscall(SYS_madvise, &runtime_->registry().cqe(slot_, 0), pinned_pages_ * 4096, MADV_REMOVE);
  }
  runtime_->cq_slots().give_back(slot_);
}

int CompletionQueue::resize(std::uint32_t cqe) {
  if (cqe == 0 || cqe > kMaxCqe) {
    return EINVAL;
  }
  const std::uint64_t pages = ring_pages(cq_ring_size(cqe));
  if (!runtime_->memlock().charge(pages)) {
    return ENOMEM;
  }
  const int error = consumer_.resize(cqe);
  if (error != 0) {
    runtime_->memlock().uncharge(pages);
    return error;
  }
  runtime_->memlock().uncharge(pinned_pages_);
  pinned_pages_ = pages;
  cqe_ = cqe;
  return 0;
}

}  // namespace softhca::hca
