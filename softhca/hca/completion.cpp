// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/completion.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "softhca/hca/clock.hpp"
#include "softhca/hca/event_channel.hpp"
#include "softhca/hca/memory.hpp"
#include "softhca/hca/robust_lock.hpp"

namespace softhca::hca {
namespace {

/// How often a thread polls in vain before it gives the processor away. To give it away is a system
/// call, during which a completion goes unseen; to keep it starves a peer on the same processor.
/// What matters shows when it is given away: where nobody else wants it, it is back at once.
class Patience {
 public:
  void found_something() { empty_ = 0; }
  void found_nothing() {
    if (++empty_ <= polls_) {
      return;
    }
    const std::uint64_t before = monotonic_ns();
    ::sched_yield();
    const bool others_ran = monotonic_ns() - before > kBackAtOnceNs;
    polls_ = others_ran ? kLeast : std::min(2 * polls_, kMost);
  }

 private:
  static constexpr int kLeast = 50;
  static constexpr int kMost = 1600;  // some 20 us: longer than a message and its answer take
  static constexpr std::uint64_t kBackAtOnceNs = 3'000;

  int polls_ = kLeast;
  int empty_ = 0;
};
thread_local Patience patience;

int found_nothing() {
  patience.found_nothing();
  return 0;
}

/// The ring size from shared memory, made safe to use as a mask.
std::uint32_t ring_of(const CqRecord& record) {
  const std::uint32_t size = record.ring_size.load(std::memory_order_relaxed);
  return std::has_single_bit(size) && size <= kCqRingSlots ? size : 1;
}

void to_wc(const Cqe& entry, ibv_wc& wc) {
  wc.wr_id = entry.wr_id;
  wc.status = static_cast<ibv_wc_status>(entry.status);
  wc.opcode = static_cast<ibv_wc_opcode>(entry.opcode);
  wc.vendor_err = 0;
  wc.byte_len = entry.byte_len;
  wc.imm_data = entry.imm_data;
  wc.qp_num = entry.qp_num;
  wc.src_qp = entry.src_qp;
  wc.wc_flags = entry.wc_flags;
  wc.pkey_index = entry.pkey_index;
  wc.slid = entry.slid;
  wc.sl = entry.sl;
  wc.dlid_path_bits = entry.dlid_path_bits;
}

EventRecord event_of(const CqRecord& record, std::uint32_t slot) {
  return {IBV_EVENT_CQ_ERR, EventTarget::Cq, slot,
          record.generation.load(std::memory_order_relaxed)};
}

/// Sends the event that the CQ is armed for, if it is armed for such an entry.
void wake(const Registry& registry, std::uint32_t slot, bool solicited) {
  CqRecord& record = registry.cq(slot);
  const auto armed = static_cast<Armed>(record.armed.load(std::memory_order_seq_cst));
  const bool wanted = armed == Armed::Any || (armed == Armed::Solicited && solicited);
  auto expected = static_cast<std::uint32_t>(armed);
  if (wanted &&
      record.armed.compare_exchange_strong(expected, static_cast<std::uint32_t>(Armed::No)) &&
      !send_event(registry, record.channel, event_of(record, slot))) {
    // A full FIFO: its reader has plenty to read. Stay armed, so that no wake-up is lost for ever.
    expected = static_cast<std::uint32_t>(Armed::No);
    record.armed.compare_exchange_strong(expected, static_cast<std::uint32_t>(armed));
  }
}

}  // namespace

std::uint32_t cq_ring_size(std::uint32_t cqe) {
  return std::bit_ceil(std::max(cqe, 1U));
}

void push_completion(const Registry& registry, std::uint32_t self, std::uint32_t cq_slot,
                     std::uint32_t owner, const Cqe& entry, const CarriedData* data) {
  if (cq_slot >= kMaxCqs) {
    return;
  }
  CqRecord& record = registry.cq(cq_slot);
  bool overrun = false;
  {
    RobustGuard guard(record.producer, registry.processes(), self);
    if (record.owner.load(std::memory_order_relaxed) != owner) {
      return;
    }
    const std::uint32_t tail = record.tail.load(std::memory_order_relaxed);
    const std::uint32_t ring = ring_of(record);
    if (tail - record.head_seen >= ring) {
      record.head_seen = record.head.load(std::memory_order_acquire);
    }
    if (tail - record.head_seen >= ring) {
      overrun = record.overrun.exchange(1) == 0;
      if (!overrun) {
        return;
      }
    } else {
      CqeSlot& place = registry.cqe(record, tail & (ring - 1));
      place.entry = entry;
      if (data != nullptr) {
        place.data = *data;
      }
      if (record.timestamps.load(std::memory_order_relaxed) != 0) {
        place.entry.completed_at = monotonic_ns();
      }
      if (!guard.held()) {
        return;
      }
      record.tail.store(tail + 1, std::memory_order_seq_cst);
    }
  }
  if (overrun) {
    send_event(registry, record.async, event_of(record, cq_slot));
    return;
  }
  // First the entry, then this look at the arming: whoever arms looks at the entries afterwards.
  wake(registry, cq_slot, entry.solicited != 0);
}

template <typename Store>
int CqConsumer::consume(int count, Store&& store) {
  if (record_->head.load(std::memory_order_relaxed) ==
      record_->tail.load(std::memory_order_acquire)) {
    if (record_->overrun.load(std::memory_order_relaxed) != 0) {
      return -EIO;
    }
    return found_nothing();
  }
  const std::lock_guard lock(mutex_);
  const std::uint32_t ring = ring_of(*record_);
  std::uint32_t head = record_->head.load(std::memory_order_relaxed);
  const std::uint32_t tail = record_->tail.load(std::memory_order_acquire);
  int found = 0;
  for (; head != tail && found < count; ++head) {
    const CqeSlot& slot = registry_->cqe(*record_, head & (ring - 1));
    const Cqe& entry = slot.entry;
    if (entry.valid == 0) {
      continue;
    }
    if (entry.carried != 0) {
      put_down(slot);
    }
    store(entry, found++);
    free_work_request(entry);
  }
  record_->head.store(head, std::memory_order_release);
  if (found == 0) {
    return found_nothing();
  }
  patience.found_something();
  return found;
}

int CqConsumer::poll(int count, ibv_wc* out) {
  return consume(count, [out](const Cqe& entry, int at) { to_wc(entry, out[at]); });
}

int CqConsumer::take(Cqe& out) {
  return consume(1, [&out](const Cqe& entry, int) { out = entry; });
}

void CqConsumer::put_down(const CqeSlot& slot) const {
  const CarriedData& data = slot.data;
  const std::uint32_t length = std::min(slot.entry.carried, CarriedData::kMax);
  const std::uint32_t region_slot = data.lkey >> 8;
  if (data.lkey == 0 || region_slot >= kMaxMrs) {
    return;
  }
  const MrRecord& region = registry_->mr(region_slot);
  const bool is_there = region.key.load(std::memory_order_acquire) == data.lkey &&
                        region.owner.load(std::memory_order_relaxed) == self_ &&
                        (region.access & IBV_ACCESS_LOCAL_WRITE) != 0 &&
                        data.address >= region.address && length <= region.length &&
                        data.address - region.address <= region.length - length;
  if (is_there) {  // else the program has taken its buffer back meanwhile
    copy_bytes(reinterpret_cast<void*>(data.address), data.bytes.data(), length);
  }
}

void CqConsumer::free_work_request(const Cqe& entry) {
  if (entry.srq < kMaxSrqs) {
    registry_->srq(entry.srq).in_use.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  if (entry.qp_slot >= kMaxQps) {
    return;
  }
  QpRecord& qp = registry_->qp(entry.qp_slot);
  if (qp.generation.load(std::memory_order_relaxed) == entry.qp_generation) {
    (entry.receive != 0 ? qp.rq_freed : qp.sq_freed)
        .store(entry.counter + 1, std::memory_order_release);
  }
}

void CqConsumer::arm(bool solicited_only) {
  const Armed wish = solicited_only ? Armed::Solicited : Armed::Any;
  std::uint32_t now = record_->armed.load(std::memory_order_relaxed);
  // Asking for less does not take back an earlier request for any completion.
  while (now < static_cast<std::uint32_t>(wish) &&
         !record_->armed.compare_exchange_weak(now, static_cast<std::uint32_t>(wish),
                                               std::memory_order_seq_cst)) {
  }
  // An entry that nobody has polled yet wakes like a new one, as on the adapters that programs were
  // written for: they compare what is queued with the place up to which was polled. Open MPI's
  // udcm polls before it arms, and not after.
  const std::lock_guard lock(mutex_);
  const std::uint32_t ring = ring_of(*record_);
  const std::uint32_t tail = record_->tail.load(std::memory_order_seq_cst);
  std::uint32_t at = record_->head.load(std::memory_order_relaxed);
  bool solicited = false;
  bool any = false;
  for (std::uint32_t left = ring; at != tail && left > 0 && !solicited; ++at, --left) {
    const Cqe& entry = registry_->cqe(*record_, at & (ring - 1)).entry;
    any = any || entry.valid != 0;
    solicited = entry.valid != 0 && entry.solicited != 0;
    if (any && !solicited_only) {
      break;
    }
  }
  if (any) {
    wake(*registry_, slot_, solicited);
  }
}

void CqConsumer::forget_qp(std::uint32_t qp_slot, std::uint32_t qp_generation) {
  const std::lock_guard lock(mutex_);
  if (record_->head.load(std::memory_order_relaxed) ==
      record_->tail.load(std::memory_order_acquire)) {
    return;
  }
  const RobustGuard guard(record_->producer, registry_->processes(), self_);
  const std::uint32_t ring = ring_of(*record_);
  const std::uint32_t tail = record_->tail.load(std::memory_order_acquire);
  std::uint32_t left = ring;
  for (std::uint32_t at = record_->head.load(); at != tail && left > 0; ++at, --left) {
    Cqe& entry = registry_->cqe(*record_, at & (ring - 1)).entry;
    if (entry.valid != 0 && entry.qp_slot == qp_slot && entry.qp_generation == qp_generation) {
      entry.valid = 0;
      if (entry.srq < kMaxSrqs) {
        registry_->srq(entry.srq).in_use.fetch_sub(1, std::memory_order_relaxed);
      }
    }
  }
}

std::uint32_t CqConsumer::count_of_srq(std::uint32_t srq) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t ring = ring_of(*record_);
  const std::uint32_t tail = record_->tail.load(std::memory_order_acquire);
  std::uint32_t found = 0;
  std::uint32_t left = ring;
  for (std::uint32_t at = record_->head.load(); at != tail && left > 0; ++at, --left) {
    const Cqe& entry = registry_->cqe(*record_, at & (ring - 1)).entry;
    found += entry.valid != 0 && entry.srq == srq ? 1U : 0U;
  }
  return found;
}

bool CqConsumer::move_ring(std::uint64_t place, std::uint32_t cqe) {
  const std::lock_guard lock(mutex_);
  const RobustGuard guard(record_->producer, registry_->processes(), self_);
  const std::uint32_t old_ring = ring_of(*record_);
  const std::uint32_t new_ring = cq_ring_size(cqe);
  const std::uint32_t head = record_->head.load();
  const std::uint32_t queued = std::min(record_->tail.load() - head, old_ring);
  if (queued > cqe) {
    return false;
  }
  for (std::uint32_t i = 0; i < queued; ++i) {
    *reinterpret_cast<CqeSlot*>(
        registry_->ring(place, ((head + i) & (new_ring - 1)) * kCqeStride, kCqeStride)) =
        registry_->cqe(*record_, (head + i) & (old_ring - 1));
  }
  record_->ring = place;
  record_->ring_size.store(new_ring);
  record_->cqe = cqe;
  return true;
}

}  // namespace softhca::hca
