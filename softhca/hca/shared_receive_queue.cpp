// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/shared_receive_queue.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "softhca/hca/recv_queue.hpp"
#include "softhca/hca/runtime.hpp"

namespace softhca::hca {

std::unique_ptr<SharedReceiveQueue> SharedReceiveQueue::create(Runtime& runtime, std::uint32_t pd,
                                                               const ibv_srq_attr& attr,
                                                               ChannelName async, int& error) {
  error = EINVAL;
  if (attr.max_wr == 0 || attr.max_wr > kMaxSrqWr || attr.max_sge > kMaxSge) {
    return nullptr;
  }
  error = ENOMEM;
  constexpr std::uint32_t kSegment = 16;
  const std::uint32_t ring = std::bit_ceil(attr.max_wr);
  const std::uint64_t pages =
      page_up(std::uint64_t{ring} * std::bit_ceil((attr.max_sge + 1) * kSegment)) / 4096;
  if (!runtime.memlock().charge(pages)) {
    return nullptr;
  }
  const std::uint32_t slot = runtime.take_slot(runtime.srq_slots());
  const std::uint64_t bytes = ring * recv_wqe_stride(attr.max_sge);
  const std::uint64_t place = slot == kNone ? 0 : runtime.arena().take(bytes);
  if (place == 0) {
    if (slot != kNone) {
      runtime.srq_slots().give_back(slot);
    }
    runtime.memlock().uncharge(pages);
    return nullptr;
  }
  auto srq = std::unique_ptr<SharedReceiveQueue>(new SharedReceiveQueue(runtime, slot));
  srq->pinned_pages_ = pages;
  SrqRecord& record = runtime.registry().srq(slot);
  srq->generation_ = record.generation.fetch_add(1) + 1;
  record.pd = pd;
  record.ring = place;
  record.ring_size = ring;
  srq->ring_bytes_ = bytes;
  record.max_wr = attr.max_wr;
  record.max_sge = attr.max_sge;
  record.async = async;
  record.posted.store(0);
  record.taken.store(0);
  record.in_use.store(0);
  record.limit.store(0);
  record.owner.store(runtime.token(), std::memory_order_release);
  error = 0;
  return srq;
}

SharedReceiveQueue::~SharedReceiveQueue() {
  runtime_->memlock().uncharge(pinned_pages_);
  SrqRecord& record = runtime_->registry().srq(slot_);
  std::uint32_t ours = runtime_->token();
  if (record.generation.load() == generation_ && record.owner.compare_exchange_strong(ours, 0)) {
    runtime_->arena().give_back(record.ring, ring_bytes_);
    runtime_->srq_slots().give_back(slot_);
  }
}

int SharedReceiveQueue::modify(const ibv_srq_attr& attr, int mask) {
  SrqRecord& record = runtime_->registry().srq(slot_);
  if ((mask & ~(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR)) != 0 || (mask & IBV_SRQ_MAX_WR) != 0) {
    return EINVAL;
  }
  if ((mask & IBV_SRQ_LIMIT) != 0) {
    if (attr.srq_limit > record.max_wr) {
      return EINVAL;
    }
    record.limit.store(attr.srq_limit);
  }
  return 0;
}

void SharedReceiveQueue::query(ibv_srq_attr& attr) const {
  const SrqRecord& record = runtime_->registry().srq(slot_);
  attr.max_wr = record.max_wr;
  attr.max_sge = record.max_sge;
  attr.srq_limit = record.limit.load();
}

int SharedReceiveQueue::post(ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const std::lock_guard lock(mutex_);
  for (; wr != nullptr; wr = wr->next) {
    const int error = post_to_srq(runtime_->registry(), slot_, *wr);
    if (error != 0) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

}  // namespace softhca::hca
