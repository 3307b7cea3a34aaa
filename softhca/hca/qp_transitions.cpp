// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/qp_transitions.hpp"

#include <array>
#include <optional>

namespace softhca::hca {
namespace {

struct Attributes {
  int required = 0;
  int optional = 0;
};

struct Row {
  ibv_qp_state from;
  ibv_qp_state to;
  Attributes rc;
  Attributes uc;
  Attributes ud;
};

constexpr int kPlace = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kMigration = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
constexpr int kUcReceive = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kRcRetry = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
constexpr int kRcSend = kRcRetry | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kUcRunning = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | kMigration;
constexpr int kRcRunning = kUcRunning | IBV_QP_MIN_RNR_TIMER;
constexpr int kUdRunning = IBV_QP_CUR_STATE | IBV_QP_QKEY;

constexpr std::array kRows{
    Row{IBV_QPS_RESET,
        IBV_QPS_INIT,
        {kPlace | IBV_QP_ACCESS_FLAGS, 0},
        {kPlace | IBV_QP_ACCESS_FLAGS, 0},
        {kPlace | IBV_QP_QKEY, 0}},
    Row{IBV_QPS_INIT,
        IBV_QPS_INIT,
        {0, kPlace | IBV_QP_ACCESS_FLAGS},
        {0, kPlace | IBV_QP_ACCESS_FLAGS},
        {0, kPlace | IBV_QP_QKEY}},
    Row{IBV_QPS_INIT,
        IBV_QPS_RTR,
        {kUcReceive | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
        {kUcReceive, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
        {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    Row{IBV_QPS_RTR,
        IBV_QPS_RTS,
        {kRcSend, kRcRunning},
        {IBV_QP_SQ_PSN, kUcRunning},
        {IBV_QP_SQ_PSN, kUdRunning}},
    Row{IBV_QPS_RTS, IBV_QPS_RTS, {0, kRcRunning}, {0, kUcRunning}, {0, kUdRunning}},
    Row{IBV_QPS_RTS,
        IBV_QPS_SQD,
        {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
        {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
        {0, IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    Row{IBV_QPS_SQD, IBV_QPS_RTS, {0, kRcRunning}, {0, kUcRunning}, {0, kUdRunning}},
    Row{IBV_QPS_SQD,
        IBV_QPS_SQD,
        {0, IBV_QP_PORT | IBV_QP_AV | kRcRetry | IBV_QP_MAX_QP_RD_ATOMIC |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
                IBV_QP_MIN_RNR_TIMER | kMigration},
        {0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | kMigration},
        {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    // An RC QP never is in SQE.
    Row{IBV_QPS_SQE,
        IBV_QPS_RTS,
        {-1, 0},
        {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
        {0, kUdRunning}},
};

std::optional<Attributes> find(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
    return Attributes{};
  }
  for (const Row& row : kRows) {
    if (row.from == from && row.to == to) {
      switch (type) {
        case IBV_QPT_RC:
          return row.rc.required == -1 ? std::nullopt : std::optional(row.rc);
        case IBV_QPT_UC:
          return row.uc;
        default:
          return row.ud;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

bool transition_allowed(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) {
  const auto attributes = find(type, from, to);
  if (!attributes) {
    return false;
  }
  const int given = mask & ~IBV_QP_STATE;
  return (given & attributes->required) == attributes->required &&
         (given & ~(attributes->required | attributes->optional)) == 0;
}

}  // namespace softhca::hca
