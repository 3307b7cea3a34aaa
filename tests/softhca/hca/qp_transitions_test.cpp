// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/qp_transitions.hpp"

#include <gtest/gtest.h>

#include <array>

namespace softhca::hca {
namespace {

struct Move {
  ibv_qp_type type;
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
};

// Facts of the architecture, written out bit by bit.
constexpr std::array kMoves{
    Move{IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
         IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    Move{IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT,
         IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    Move{IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    Move{IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
         IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER},
    Move{IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR,
         IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN},
    Move{IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0},
    Move{IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS,
         IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC},
    Move{IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN},
    Move{IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN},
};

constexpr std::array kStates{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                             IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};

TEST(QpTransitions, RequiredBitsSufficeAndNoneMayBeMissing) {
  for (const Move& move : kMoves) {
    EXPECT_TRUE(transition_allowed(move.type, move.from, move.to, IBV_QP_STATE | move.required))
        << move.type << " " << move.from << ">" << move.to;
    for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
      if ((move.required & bit) != 0) {
        EXPECT_FALSE(transition_allowed(move.type, move.from, move.to,
                                        (IBV_QP_STATE | move.required) & ~bit))
            << move.type << " " << move.from << ">" << move.to << " without " << bit;
      }
    }
  }
}

TEST(QpTransitions, AnAttributeOfAnotherMoveIsRefused) {
  EXPECT_FALSE(transition_allowed(
      IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS | IBV_QP_DEST_QPN));
  EXPECT_FALSE(transition_allowed(
      IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS | IBV_QP_QKEY));
  EXPECT_FALSE(transition_allowed(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_AV));
  EXPECT_FALSE(transition_allowed(IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS,
                                  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT));
  EXPECT_FALSE(
      transition_allowed(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_ERR, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS));
}

TEST(QpTransitions, ErrorAndResetAreReachableFromEverywhere) {
  for (const ibv_qp_state from : kStates) {
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
      EXPECT_TRUE(transition_allowed(type, from, IBV_QPS_ERR, IBV_QP_STATE));
      EXPECT_TRUE(transition_allowed(type, from, IBV_QPS_RESET, IBV_QP_STATE));
    }
  }
}

TEST(QpTransitions, NoStateIsSkipped) {
  const int everything = (IBV_QP_DEST_QPN << 1) - 1;
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    for (int mask : {static_cast<int>(IBV_QP_STATE), everything}) {
      EXPECT_FALSE(transition_allowed(type, IBV_QPS_RESET, IBV_QPS_RTR, mask));
      EXPECT_FALSE(transition_allowed(type, IBV_QPS_RESET, IBV_QPS_RTS, mask));
      EXPECT_FALSE(transition_allowed(type, IBV_QPS_INIT, IBV_QPS_RTS, mask));
      EXPECT_FALSE(transition_allowed(type, IBV_QPS_RTS, IBV_QPS_RTR, mask));
      EXPECT_FALSE(transition_allowed(type, IBV_QPS_ERR, IBV_QPS_RTS, mask));
    }
  }
  EXPECT_FALSE(transition_allowed(IBV_QPT_RC, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE));
  EXPECT_TRUE(transition_allowed(IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE));
}

TEST(QpTransitions, DrainedQueuesMayChangeTheirPath) {
  EXPECT_TRUE(transition_allowed(IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, IBV_QP_AV | IBV_QP_TIMEOUT));
  EXPECT_FALSE(transition_allowed(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_AV));
  EXPECT_TRUE(transition_allowed(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD,
                                 IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
}

}  // namespace
}  // namespace softhca::hca
