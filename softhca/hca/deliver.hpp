// SPDX-License-Identifier: BSD-3-Clause
// What is common to all deliveries into a QP. The caller holds the QP's rx_lock.
#pragma once

#include <optional>

#include "softhca/hca/memory.hpp"
#include "softhca/hca/recv_queue.hpp"
#include "softhca/hca/registry.hpp"

namespace softhca::hca {

/// The memory a receive scatters to, as addresses in its owner; nullopt when one of its keys does
/// not allow it.
std::optional<SegmentList> scatter_list(const Registry& registry, const QpRecord& qp,
                                        const TakenRecv& taken);

/// A completion for `qp` with the fields every completion has.
Cqe completion_for(const QpRecord& qp, std::uint32_t qp_slot);

/// A receive completion with the given status, not yet pushed.
Cqe recv_completion(const QpRecord& qp, std::uint32_t qp_slot, const TakenRecv& taken,
                    ibv_wc_status status);

/// Completes every posted receive of the QP with IBV_WC_WR_FLUSH_ERR; for a QP with an SRQ sends
/// IBV_EVENT_QP_LAST_WQE_REACHED instead.
void flush_receives(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot);

/// Puts a QP into the error state because of what a peer asked for, flushes its receives and tells
/// its owner by an asynchronous event, if there is one for the case. Its send queue is flushed by
/// its owner.
void fail_responder(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot,
                    std::optional<ibv_event_type> event);

/// Sends an asynchronous event about a QP to its owner.
void send_qp_event(const Registry& registry, std::uint32_t qp_slot, ibv_event_type type);

}  // namespace softhca::hca
