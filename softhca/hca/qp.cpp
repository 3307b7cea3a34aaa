// SPDX-License-Identifier: BSD-3-Clause
// Life of a QP: creation, moves between states, destruction. Sending is in qp_send.cpp.
#include "softhca/hca/qp.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "softhca/hca/deliver.hpp"
#include "softhca/hca/multicast.hpp"
#include "softhca/hca/qp_transitions.hpp"
#include "softhca/hca/recv_queue.hpp"
#include "softhca/hca/robust_lock.hpp"
#include "softhca/hca/runtime.hpp"

namespace softhca::hca {
namespace {

constexpr std::uint32_t kPsnMask = 0xFFFFFF;

bool limits_ok(const QpInit& init) {
  const ibv_qp_cap& cap = init.cap;
  const bool type_ok =
      init.type == IBV_QPT_RC || init.type == IBV_QPT_UC || init.type == IBV_QPT_UD;
  return type_ok && cap.max_send_wr <= kMaxWr && cap.max_recv_wr <= kMaxWr &&
         cap.max_send_sge <= kMaxSge && cap.max_recv_sge <= kMaxSge &&
         cap.max_inline_data <= kMaxInline && init.send_cq < kMaxCqs && init.recv_cq < kMaxCqs;
}

/// Size of the rings as a driver would pin them: work requests of a power of two, whole pages.
std::uint64_t ring_pages(const QpInit& init) {
  const ibv_qp_cap& cap = init.cap;
  constexpr std::uint32_t kSegment = 16;
  constexpr std::uint32_t kControl = 2 * kSegment;
  const std::uint32_t body = std::max(cap.max_send_sge * kSegment, cap.max_inline_data);
  const std::uint64_t send =
      std::uint64_t{cap.max_send_wr} * std::bit_ceil(std::max(kControl + body, 64U));
  const std::uint64_t recv = init.srq != kNone
                                 ? 0
                                 : std::uint64_t{cap.max_recv_wr} *
                                       std::bit_ceil(std::max(cap.max_recv_sge, 1U) * kSegment);
  return page_up(std::max<std::uint64_t>(send + recv, 1)) / 4096;
}

std::uint32_t recv_ring_slots(const QpInit& init) {
  const bool own_queue = init.srq == kNone && init.cap.max_recv_wr > 0;
  return own_queue ? std::bit_ceil(init.cap.max_recv_wr) : 0;
}

std::uint64_t recv_ring_bytes(const QpInit& init) {
  return recv_ring_slots(init) * recv_wqe_stride(init.cap.max_recv_sge);
}

}  // namespace

Qp::Qp(Runtime& runtime, const QpInit& init, std::uint32_t slot)
    : runtime_(&runtime), init_(init), record_(&runtime.registry().qp(slot)), slot_(slot) {}

std::unique_ptr<Qp> Qp::create(Runtime& runtime, const QpInit& init, int& error) {
  error = EINVAL;
  if (!limits_ok(init)) {
    return nullptr;
  }
  error = ENOMEM;
  const auto most = init.ports.empty() ? std::optional<std::uint64_t>{}
                                       : runtime.faults().limit(Limit::Qps, init.ports.front());
  if (most && runtime.registry().count_qps(init.hca) >= *most) {
    return nullptr;
  }
  const std::uint64_t pages = ring_pages(init);
  if (!runtime.memlock().charge(pages)) {
    return nullptr;
  }
  const std::uint32_t slot = runtime.take_slot(runtime.qp_slots());
  const std::uint64_t ring = slot == kNone ? 0 : runtime.arena().take(recv_ring_bytes(init));
  const auto undo = [&] {
    if (ring != 0) {
      runtime.arena().give_back(ring, recv_ring_bytes(init));
    }
    if (slot != kNone) {
      runtime.qp_slots().give_back(slot);
    }
    runtime.memlock().uncharge(pages);
  };
  if (ring == 0) {
    undo();
    return nullptr;
  }
  auto qp = std::unique_ptr<Qp>(new Qp(runtime, init, slot));
  qp->pinned_pages_ = pages;
  QpRecord& record = *qp->record_;
  qp->generation_ = record.generation.fetch_add(1) + 1;
  record.state.store(IBV_QPS_RESET);
  record.hca = init.hca;
  record.type = init.type;
  record.pd = init.pd;
  record.send_cq = init.send_cq;
  record.recv_cq = init.recv_cq;
  record.srq = init.srq;
  record.async = init.async;
  record.had_events.store(0);
  record.block_self_multicast = init.block_self_multicast ? 1 : 0;
  record.path = {};
  record.path.port_index = kNone;
  record.alternate = record.path;
  record.migration.store(IBV_MIG_MIGRATED);
  record.migrations.store(0);
  record.rq_posted.store(0);
  record.rq_taken.store(0);
  record.rq_freed.store(0);
  record.sq_freed.store(0);
  record.rq_ring = ring;
  record.rq_ring_size = recv_ring_slots(init);
  record.rq_max_wr = init.cap.max_recv_wr;
  record.rq_max_sge = init.cap.max_recv_sge;
  record.qpn = 0;
  record.owner.store(runtime.token(), std::memory_order_release);
  const std::uint32_t qpn = runtime.registry().assign_qpn(init.hca, slot);
  if (qpn == 0) {
    record.owner.store(0);
    qp->record_ = nullptr;
    undo();
    return nullptr;
  }
  runtime.add_qp(*qp);
  if (!init.ports.empty()) {
    runtime.count(init.ports.front(), Counter::QpsCreated);
  }
  error = 0;
  return qp;
}

Qp::~Qp() {
  if (record_ == nullptr) {
    return;
  }
  runtime_->pending().forget(*this);
  runtime_->remove_qp(*this);
  Registry& registry = runtime_->registry();
  const bool still_ours =
      record_->owner.load() == runtime_->token() && record_->generation.load() == generation_;
  runtime_->memlock().uncharge(pinned_pages_);
  if (!still_ours) {
    return;  // the process is exiting and has left the fabric
  }
  if (attached_) {
    detach_all(registry, runtime_->token(), slot_);
  }
  registry.release_qpn(record_->hca, record_->qpn, slot_);
  {
    const RobustGuard guard(record_->rx_lock, registry.processes(), runtime_->token());
    record_->state.store(IBV_QPS_RESET);
    record_->owner.store(0);
    record_->generation.fetch_add(1);
  }
  forget_completions();
  runtime_->arena().give_back(record_->rq_ring, recv_ring_bytes(init_));
  runtime_->qp_slots().give_back(slot_);
  if (!init_.ports.empty()) {
    runtime_->count(init_.ports.front(), Counter::QpsDestroyed);
  }
}

ibv_qp_state Qp::state() const {
  return static_cast<ibv_qp_state>(record_->state.load(std::memory_order_seq_cst));
}

void Qp::forget_completions() {
  init_.send_consumer->forget_qp(slot_, generation_);
  if (init_.recv_consumer != init_.send_consumer) {
    init_.recv_consumer->forget_qp(slot_, generation_);
  }
}

bool Qp::values_ok(const ibv_qp_attr& attr, int mask, ibv_qp_state target) const {
  const std::uint8_t port = (mask & IBV_QP_PORT) != 0 ? attr.port_num : attr_.port_num;
  const bool needs_port = target != IBV_QPS_RESET && target != IBV_QPS_ERR;
  if (needs_port && (port == 0 || port > init_.ports.size())) {
    return false;
  }
  if ((mask & IBV_QP_PKEY_INDEX) != 0 &&
      attr.pkey_index >= runtime_->ports().port(init_.ports[port - 1U]).pkey_count) {
    return false;
  }
  if ((mask & IBV_QP_AV) != 0) {
    const ibv_ah_attr& av = attr.ah_attr;
    if (av.port_num == 0 || av.port_num > init_.ports.size() || av.sl > 15) {
      return false;
    }
    if (av.is_global != 0 &&
        av.grh.sgid_index >= runtime_->ports().port(init_.ports[av.port_num - 1U]).gid_count) {
      return false;
    }
  }
  const auto too_big = [mask](int bit, unsigned value, unsigned most) {
    return (mask & bit) != 0 && value > most;
  };
  if (!migration_ok(attr, mask)) {
    return false;
  }
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096)) {
    return false;
  }
  return !too_big(IBV_QP_DEST_QPN, attr.dest_qp_num, kQpnMask) &&
         !too_big(IBV_QP_MAX_QP_RD_ATOMIC, attr.max_rd_atomic, kMaxRdAtomic) &&
         !too_big(IBV_QP_MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic, kMaxRdAtomic) &&
         !too_big(IBV_QP_TIMEOUT, attr.timeout, 31) &&
         !too_big(IBV_QP_RETRY_CNT, attr.retry_cnt, 7) &&
         !too_big(IBV_QP_RNR_RETRY, attr.rnr_retry, 7) &&
         !too_big(IBV_QP_MIN_RNR_TIMER, attr.min_rnr_timer, 31);
}

void Qp::store(const ibv_qp_attr& attr, int mask) {
  const auto take = [mask](int bit, auto& to, const auto& from) {
    if ((mask & bit) != 0) {
      to = from;
    }
  };
  take(IBV_QP_ACCESS_FLAGS, attr_.qp_access_flags, attr.qp_access_flags);
  take(IBV_QP_PKEY_INDEX, attr_.pkey_index, attr.pkey_index);
  take(IBV_QP_PORT, attr_.port_num, attr.port_num);
  take(IBV_QP_QKEY, attr_.qkey, attr.qkey);
  take(IBV_QP_AV, attr_.ah_attr, attr.ah_attr);
  take(IBV_QP_PATH_MTU, attr_.path_mtu, attr.path_mtu);
  take(IBV_QP_TIMEOUT, attr_.timeout, attr.timeout);
  take(IBV_QP_RETRY_CNT, attr_.retry_cnt, attr.retry_cnt);
  take(IBV_QP_RNR_RETRY, attr_.rnr_retry, attr.rnr_retry);
  take(IBV_QP_RQ_PSN, attr_.rq_psn, attr.rq_psn & kPsnMask);
  take(IBV_QP_MAX_QP_RD_ATOMIC, attr_.max_rd_atomic, attr.max_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, attr_.min_rnr_timer, attr.min_rnr_timer);
  take(IBV_QP_SQ_PSN, attr_.sq_psn, attr.sq_psn & kPsnMask);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, attr_.max_dest_rd_atomic, attr.max_dest_rd_atomic);
  take(IBV_QP_DEST_QPN, attr_.dest_qp_num, attr.dest_qp_num);
  take(IBV_QP_EN_SQD_ASYNC_NOTIFY, attr_.en_sqd_async_notify, attr.en_sqd_async_notify);
  if ((mask & IBV_QP_ALT_PATH) != 0) {
    attr_.alt_ah_attr = attr.alt_ah_attr;
    attr_.alt_pkey_index = attr.alt_pkey_index;
    attr_.alt_port_num = attr.alt_port_num;
    attr_.alt_timeout = attr.alt_timeout;
  }
}

/// Brings the shared record up to the attributes and the new state. Send mutex, receive mutex and
/// rx_lock are held.
void Qp::publish(ibv_qp_state from, ibv_qp_state to, int mask) {
  QpRecord& record = *record_;
  if (to == IBV_QPS_RESET) {
    attr_ = {};
    posted_ = 0;
    path_ = {};
    pending_.clear();
    executed_ = 0;
    tell_when_drained_ = false;
    record.rq_posted.store(0);
    record.rq_taken.store(0);
    record.rq_freed.store(0);
    record.sq_freed.store(0);
    record.path = {};
    record.path.port_index = kNone;
    record.alternate = record.path;
    record.migration.store(IBV_MIG_MIGRATED);
  } else {
    publish_paths();
    record.qkey = attr_.qkey;
    record.access = attr_.qp_access_flags;
    record.dest_qpn = attr_.dest_qp_num;
    record.path_mtu = static_cast<std::uint32_t>(attr_.path_mtu);
    record.min_rnr_timer = attr_.min_rnr_timer;
    record.max_dest_rd_atomic = attr_.max_dest_rd_atomic;
  }
  if ((mask & IBV_QP_RQ_PSN) != 0) {
    record.expected_psn = attr_.rq_psn;
  }
  if ((mask & IBV_QP_SQ_PSN) != 0) {
    path_.next_psn = attr_.sq_psn;
  }
  if ((mask & (IBV_QP_AV | IBV_QP_PORT)) != 0) {
    forget_routes();
  }
  if (to == IBV_QPS_RTR && from != IBV_QPS_RTR) {
    record.established = 0;
  }
  record.state.store(to, std::memory_order_seq_cst);
}

int Qp::modify(const ibv_qp_attr& attr, int mask) {
  const std::lock_guard send_lock(send_mutex_);
  const std::lock_guard recv_lock(recv_mutex_);
  ibv_qp_state from = IBV_QPS_RESET;
  ibv_qp_state to = IBV_QPS_RESET;
  {
    const RobustGuard guard(record_->rx_lock, runtime_->registry().processes(), runtime_->token());
    from = state();
    to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : from;
    if (((mask & IBV_QP_CUR_STATE) != 0 && attr.cur_qp_state != from) ||
        !transition_allowed(init_.type, from, to, mask) || !values_ok(attr, mask, to)) {
      return EINVAL;
    }
    adopt_migration();
    store(attr, mask);
    publish(from, to, mask);
    if ((mask & IBV_QP_PATH_MIG_STATE) != 0) {
      set_migration(attr.path_mig_state);
    }
    if (to == IBV_QPS_ERR && from != IBV_QPS_RESET && from != IBV_QPS_ERR) {
      flush_receives(runtime_->registry(), runtime_->token(), slot_);
    }
  }
  switch (to) {
    case IBV_QPS_RESET:
      forget_completions();
      break;
    case IBV_QPS_ERR:
      stop_sending();
      break;
    case IBV_QPS_SQD:
      if (from == IBV_QPS_RTS) {
        tell_when_drained_ = attr_.en_sqd_async_notify != 0;
        tell_drained();
      }
      break;
    default:
      if (!pending_.empty()) {
        runtime_->pending().schedule(*this, 0);
      }
      break;
  }
  return 0;
}

void Qp::query(ibv_qp_attr& attr) {
  const std::lock_guard send_lock(send_mutex_);
  const RobustGuard guard(record_->rx_lock, runtime_->registry().processes(), runtime_->token());
  adopt_migration();
  attr = attr_;
  attr.path_mig_state = static_cast<ibv_mig_state>(record_->migration.load());
  attr.qp_state = state();
  attr.cur_qp_state = attr.qp_state;
  attr.rq_psn = attr.qp_state == IBV_QPS_RESET ? 0 : record_->expected_psn;
  attr.sq_psn = path_.next_psn;
  attr.cap = init_.cap;
  attr.sq_draining = attr.qp_state == IBV_QPS_SQD && !drained() ? 1 : 0;
}

int Qp::post_recv(ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const std::lock_guard lock(recv_mutex_);
  for (; wr != nullptr; wr = wr->next) {
    const int error =
        state() == IBV_QPS_RESET ? EINVAL : post_to_qp(runtime_->registry(), slot_, *wr);
    if (error != 0) {
      *bad = wr;
      return error;
    }
  }
  if (state() == IBV_QPS_ERR) {
    flush_recv_queue();
  }
  return 0;
}

void Qp::flush_recv_queue() {
  const RobustGuard guard(record_->rx_lock, runtime_->registry().processes(), runtime_->token());
  flush_receives(runtime_->registry(), runtime_->token(), slot_);
}

void Qp::quiesce() {
  const std::lock_guard send_lock(send_mutex_);
  const RobustGuard guard(record_->rx_lock, runtime_->registry().processes(), runtime_->token());
}

}  // namespace softhca::hca
