// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cm/engine/state.hpp"
#include "mad/cm.hpp"
#include "mad/path_record.hpp"

namespace wireup::cm::ibcm {

/// One of a connection's paths, from here to the peer, with what the local port makes of it.
struct LocalPath {
  mad::PathRecord record;
  /// Counts from 1.
  std::uint8_t port = 1;
  std::uint16_t pkey_index = 0;
  std::uint8_t sgid_index = 0;
  /// The path's first LID is the port's; these bits lead to it.
  std::uint8_t path_bits = 0;
  /// Local ACK timeout of the queue pair on this path.
  IbTimeout ack_timeout;
  friend bool operator==(const LocalPath&, const LocalPath&) noexcept = default;
};

/// What is kept of REQ, REP and LAP for the queue pair's attributes, seen from this end.
struct QpFacts {
  ibv_qp_type qp_type = IBV_QPT_RC;
  LocalPath primary;
  std::optional<LocalPath> alternate;
  /// MTU code of both paths.
  std::uint8_t path_mtu = 0;
  Qpn remote_qpn;
  /// What comes first, and what is to be sent first.
  Psn rq_psn;
  Psn sq_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
};

/// The attributes for moving a queue pair to `target`, as the kernel's connection manager has them:
/// INIT, RTR, RTS; to RTS again, `rearms`, after a LAP: the alternate path alone.
/// Errc::InvalidState: not to be had in this state of the connection (before the REP on the active
/// side there is INIT only), or no such target.
struct QpAttributes {
  ibv_qp_attr attr;
  int mask = 0;
};
[[nodiscard]] Result<QpAttributes> qp_attributes(const QpFacts& facts, State state, bool rearms,
                                                 ibv_qp_state target);

/// The active side's facts take what the peer's REP says; the passive side's what our own does.
void take_peers_rep(QpFacts& facts, const mad::Rep& rep) noexcept;

}  // namespace wireup::cm::ibcm
