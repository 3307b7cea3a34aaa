// SPDX-License-Identifier: BSD-3-Clause
// The QP state machine: which state follows which, and which attributes a move needs and allows.
#pragma once

#include <infiniband/verbs.h>

namespace softhca::hca {

/// Whether ibv_modify_qp may move a QP of `type` from `from` to `to` with exactly the attributes of
/// `mask` (IBTA vol 1, 11.2.5.2, table "QP State Transition Properties"). IBV_QP_STATE itself may
/// be absent when `from == to`.
bool transition_allowed(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask);

}  // namespace softhca::hca
