// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/shared_receive_queue.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <vector>

#include "softhca/hca/qp.hpp"
#include "softhca/hca/recv_queue.hpp"
#include "softhca/hca/robust_lock.hpp"
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

bool SharedReceiveQueue::recover_lost() {
  Registry& registry = runtime_->registry();
  SrqRecord& record = registry.srq(slot_);
  const std::uint32_t believed = record.in_use.load();
  // A receive goes from the queue to a sender who has a QP locked, and on to a CQ. Counted in this
  // order none is missed; one that moves meanwhile is counted twice, and is found out next time.
  std::uint32_t counted = record.posted.load() - record.taken.load();
  std::vector<CqConsumer*> consumers;
  runtime_->for_each_qp([&](const Qp& qp) {
    if (qp.init().srq != slot_) {
      return;
    }
    consumers.push_back(qp.init().recv_consumer);
    const std::uint64_t holder = registry.qp(qp.slot()).rx_lock.value.load();
    if (holder != 0 && registry.processes().liveness(lock_owner(holder)) != Liveness::Dead) {
      ++counted;
    }
  });
  std::sort(consumers.begin(), consumers.end());
  consumers.erase(std::unique(consumers.begin(), consumers.end()), consumers.end());
  for (CqConsumer* consumer : consumers) {
    counted += consumer->count_of_srq(slot_);
  }
  std::uint32_t unchanged = believed;  // or somebody polls just now, and there is room
  return counted < believed && record.in_use.compare_exchange_strong(unchanged, counted);
}

int SharedReceiveQueue::post(ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const std::lock_guard lock(mutex_);
  for (; wr != nullptr; wr = wr->next) {
    int error = post_to_srq(runtime_->registry(), slot_, *wr);
    if (error == ENOMEM && recover_lost()) {
      error = post_to_srq(runtime_->registry(), slot_, *wr);
    }
    if (error != 0) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

}  // namespace softhca::hca
