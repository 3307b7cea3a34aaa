// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/recv_queue.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "softhca/hca/event_channel.hpp"
#include "softhca/hca/memory.hpp"
#include "softhca/hca/robust_lock.hpp"

namespace softhca::hca {
namespace {

/// A ring of WQEs; all sizes are made safe, since they come from shared memory.
struct Ring {
  const Registry& registry;
  std::uint64_t place;
  std::uint32_t mask;
  std::uint32_t max_sge;

  Ring(const Registry& of, std::uint64_t where, std::uint32_t slots, std::uint32_t sges,
       std::uint32_t most)
      : registry(of),
        place(where),
        mask(std::has_single_bit(slots) && slots <= most ? slots - 1 : 0),
        max_sge(std::min(sges, kMaxSge)) {}

  [[nodiscard]] std::uint8_t* wqe(std::uint32_t counter) const {
    const std::uint64_t stride = recv_wqe_stride(max_sge);
    return registry.ring(place, (counter & mask) * stride, stride);
  }

  void put(std::uint32_t counter, const ibv_recv_wr& wr) const {
    std::uint8_t* to = wqe(counter);
    auto* head = reinterpret_cast<RecvWqe*>(to);
    head->wr_id = wr.wr_id;
    head->num_sge = static_cast<std::uint32_t>(wr.num_sge);
    copy_bytes(to + kRecvWqeHeader, wr.sg_list, head->num_sge * sizeof(ibv_sge));
  }

  void get(std::uint32_t counter, RecvWqe& out) const {
    const std::uint8_t* from = wqe(counter);
    const auto* head = reinterpret_cast<const RecvWqe*>(from);
    out.wr_id = head->wr_id;
    out.num_sge = std::min(head->num_sge, max_sge);
    copy_bytes(out.sge.data(), from + kRecvWqeHeader, out.num_sge * sizeof(ibv_sge));
  }
};

Ring ring_of(const Registry& registry, const QpRecord& qp) {
  return {registry, qp.rq_ring, qp.rq_ring_size, qp.rq_max_sge, std::bit_ceil(kMaxWr)};
}

Ring ring_of(const Registry& registry, const SrqRecord& srq) {
  return {registry, srq.ring, srq.ring_size, srq.max_sge, std::bit_ceil(kMaxSrqWr)};
}

bool sge_count_ok(const ibv_recv_wr& wr, std::uint32_t max_sge) {
  return wr.num_sge >= 0 && static_cast<std::uint32_t>(wr.num_sge) <= max_sge;
}

}  // namespace

std::uint64_t TakenRecv::room() const {
  std::uint64_t room = 0;
  for (std::uint32_t i = 0; i < wqe.num_sge; ++i) {
    room += wqe.sge[i].length;
  }
  return room;
}

int post_to_qp(const Registry& registry, std::uint32_t qp_slot, const ibv_recv_wr& wr) {
  QpRecord& qp = registry.qp(qp_slot);
  if (qp.rq_ring_size == 0) {
    return qp.srq == kNone ? ENOMEM : EINVAL;
  }
  if (!sge_count_ok(wr, qp.rq_max_sge)) {
    return EINVAL;
  }
  const std::uint32_t posted = qp.rq_posted.load(std::memory_order_relaxed);
  if (posted - qp.rq_freed.load(std::memory_order_acquire) >= qp.rq_max_wr) {
    return ENOMEM;
  }
  ring_of(registry, qp).put(posted, wr);
  qp.rq_posted.store(posted + 1, std::memory_order_seq_cst);
  return 0;
}

int post_to_srq(const Registry& registry, std::uint32_t srq_slot, const ibv_recv_wr& wr) {
  SrqRecord& srq = registry.srq(srq_slot);
  if (!sge_count_ok(wr, srq.max_sge)) {
    return EINVAL;
  }
  if (srq.in_use.load(std::memory_order_relaxed) >= srq.max_wr) {
    return ENOMEM;
  }
  srq.in_use.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t posted = srq.posted.load(std::memory_order_relaxed);
  ring_of(registry, srq).put(posted, wr);
  srq.posted.store(posted + 1, std::memory_order_release);
  return 0;
}

namespace {

Take take_from_srq(const Registry& registry, std::uint32_t self, std::uint32_t slot,
                   std::uint64_t need, TakenRecv& taken) {
  SrqRecord& srq = registry.srq(slot);
  bool limit_reached = false;
  {
    RobustGuard guard(srq.lock, registry.processes(), self);
    const std::uint32_t at = srq.taken.load(std::memory_order_relaxed);
    const std::uint32_t left = srq.posted.load(std::memory_order_acquire) - at;
    if (left == 0 || left > kMaxSrqWr) {
      return Take::Empty;
    }
    ring_of(registry, srq).get(at, taken.wqe);
    if (taken.room() < need) {
      return Take::TooShort;
    }
    if (!guard.held()) {
      return Take::Empty;
    }
    taken.counter = at;
    taken.srq = slot;
    srq.taken.store(at + 1, std::memory_order_release);
    const std::uint32_t limit = srq.limit.load(std::memory_order_relaxed);
    limit_reached = limit != 0 && left - 1 < limit && srq.limit.exchange(0) != 0;
  }
  if (limit_reached) {
    send_event(registry, srq.async,
               {IBV_EVENT_SRQ_LIMIT_REACHED, EventTarget::Srq, slot, srq.generation.load()});
  }
  return Take::Taken;
}

}  // namespace

Take take_recv(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot,
               std::uint64_t need, TakenRecv& taken) {
  QpRecord& qp = registry.qp(qp_slot);
  if (qp.srq < kMaxSrqs) {
    return take_from_srq(registry, self, qp.srq, need, taken);
  }
  const std::uint32_t at = qp.rq_taken.load(std::memory_order_relaxed);
  const std::uint32_t left = qp.rq_posted.load(std::memory_order_acquire) - at;
  if (left == 0 || left > kMaxWr) {
    return Take::Empty;
  }
  ring_of(registry, qp).get(at, taken.wqe);
  if (taken.room() < need) {
    return Take::TooShort;
  }
  taken.counter = at;
  taken.srq = kNone;
  qp.rq_taken.store(at + 1, std::memory_order_release);
  return Take::Taken;
}

}  // namespace softhca::hca
