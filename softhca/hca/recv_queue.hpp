// SPDX-License-Identifier: BSD-3-Clause
// Receive work requests in shared rings: posted by the owner, taken by whoever delivers.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "softhca/hca/registry.hpp"

namespace softhca::hca {

/// A receive taken out of a queue.
struct TakenRecv {
  RecvWqe wqe;
  std::uint32_t counter = 0;
  std::uint32_t srq = kNone;

  [[nodiscard]] std::uint64_t room() const;
};

/// Posts one receive to a QP's own queue. The caller is the owner and lets one thread at a time in.
/// 0, EINVAL (too many SGEs, no queue of its own) or ENOMEM (queue full; a request leaves the
/// queue only when its completion is polled, as on hardware).
int post_to_qp(const Registry& registry, std::uint32_t qp_slot, const ibv_recv_wr& wr);

/// The same for an SRQ.
int post_to_srq(const Registry& registry, std::uint32_t srq_slot, const ibv_recv_wr& wr);

enum class Take { Taken, Empty, TooShort };

/// Takes the oldest receive for a QP from its queue or SRQ; one with less than `need` bytes of room
/// is left where it is. The caller holds the QP's rx_lock; `self` is the calling process.
Take take_recv(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot,
               std::uint64_t need, TakenRecv& taken);

}  // namespace softhca::hca
