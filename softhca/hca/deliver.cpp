// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/deliver.hpp"

#include "softhca/hca/completion.hpp"
#include "softhca/hca/event_channel.hpp"
#include "softhca/hca/mr_table.hpp"

namespace softhca::hca {

std::optional<SegmentList> scatter_list(const Registry& registry, const QpRecord& qp,
                                        const TakenRecv& taken) {
  SegmentList list;
  const std::uint32_t owner = qp.owner.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < taken.wqe.num_sge; ++i) {
    const ibv_sge& sge = taken.wqe.sge[i];
    if (sge.length == 0) {
      continue;
    }
    const auto address =
        translate(registry, sge.lkey, owner, qp.pd, sge.addr, sge.length, IBV_ACCESS_LOCAL_WRITE);
    if (!address || !list.add(*address, sge.length)) {
      return std::nullopt;
    }
  }
  return list;
}

Cqe completion_for(const QpRecord& qp, std::uint32_t qp_slot) {
  Cqe entry{};
  entry.qp_slot = qp_slot;
  entry.qp_generation = qp.generation.load(std::memory_order_relaxed);
  entry.qp_num = qp.qpn;
  entry.srq = kNone;
  entry.valid = 1;
  return entry;
}

Cqe recv_completion(const QpRecord& qp, std::uint32_t qp_slot, const TakenRecv& taken,
                    ibv_wc_status status) {
  Cqe entry = completion_for(qp, qp_slot);
  entry.wr_id = taken.wqe.wr_id;
  entry.counter = taken.counter;
  entry.srq = taken.srq;
  entry.status = static_cast<std::uint8_t>(status);
  entry.opcode = static_cast<std::uint8_t>(IBV_WC_RECV);
  entry.receive = 1;
  entry.solicited = status != IBV_WC_SUCCESS ? 1 : 0;
  return entry;
}

void flush_receives(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot) {
  const QpRecord& qp = registry.qp(qp_slot);
  if (qp.srq != kNone) {
    send_qp_event(registry, qp_slot, IBV_EVENT_QP_LAST_WQE_REACHED);
    return;
  }
  const std::uint32_t owner = qp.owner.load(std::memory_order_relaxed);
  TakenRecv taken;
  for (std::uint32_t left = kMaxWr; left > 0; --left) {
    if (take_recv(registry, self, qp_slot, 0, taken) != Take::Taken) {
      break;
    }
    push_completion(registry, self, qp.recv_cq, owner,
                    recv_completion(qp, qp_slot, taken, IBV_WC_WR_FLUSH_ERR));
  }
}

void fail_responder(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot,
                    std::optional<ibv_event_type> event) {
  registry.qp(qp_slot).state.store(IBV_QPS_ERR, std::memory_order_seq_cst);
  flush_receives(registry, self, qp_slot);
  if (event) {
    send_qp_event(registry, qp_slot, *event);
  }
}

void send_qp_event(const Registry& registry, std::uint32_t qp_slot, ibv_event_type type) {
  QpRecord& qp = registry.qp(qp_slot);
  qp.had_events.store(1, std::memory_order_relaxed);
  send_event(registry, qp.async,
             {static_cast<std::uint32_t>(type), EventTarget::Qp, qp_slot,
              qp.generation.load(std::memory_order_relaxed)});
}

}  // namespace softhca::hca
