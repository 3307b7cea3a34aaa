// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "verbs/objects.hpp"
#include "verbs/ud_endpoint.hpp"

namespace wireup::verbs {

/// Depths of an RC QP. `signal_all` makes every send give a completion.
struct RcQpOptions {
  std::uint32_t send_depth = 64;
  std::uint32_t receive_depth = 64;
  std::uint32_t send_parts = 1;
  std::uint32_t receive_parts = 1;
  std::uint32_t inline_size = 64;
  bool signal_all = false;
};

/// All that a connected RC QP is programmed with. `to` holds the peer's QPN and the address vector
/// of our own outgoing direction (its Q_Key is not used).
struct RcAttributes {
  std::uint8_t port = 1;
  std::uint16_t pkey_index = 0;
  UdDestination to;
  /// IBA codes; see PortInfo.
  std::uint8_t path_mtu = 0;
  Psn receive_psn;
  Psn send_psn;
  /// Outstanding RDMA reads and atomics that we answer, and that we start.
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  /// IBA code of the delay that we ask for when no receive is posted (12 = 0.64 ms).
  std::uint8_t min_rnr_timer = 12;
  IbTimeout ack_timeout;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
  friend constexpr bool operator==(const RcAttributes&, const RcAttributes&) noexcept = default;
};

/// Makes an RC QP in RESET.
[[nodiscard]] Result<Qp> open_rc_qp(const Pd& pd, const RcQpOptions& options, ibv_cq* send_cq,
                                    ibv_cq* receive_cq);

/// RESET to INIT: local and remote write, remote read and atomics. Receives may be posted then.
[[nodiscard]] Result<> to_init(const Qp& qp, std::uint8_t port, std::uint16_t pkey_index);
/// INIT to RTR, IBTA vol 1 table 91: the QP answers its peer.
[[nodiscard]] Result<> to_rtr(const Qp& qp, const RcAttributes& attributes);
/// RTR to RTS: the QP may send.
[[nodiscard]] Result<> to_rts(const Qp& qp, const RcAttributes& attributes);
/// Any state to ERROR: posted work comes back with IBV_WC_WR_FLUSH_ERR.
[[nodiscard]] Result<> to_error(const Qp& qp);
/// Any state to RESET: posted work is dropped, the QP may be used again.
[[nodiscard]] Result<> to_reset(const Qp& qp);

/// The address vector for an address handle or an RC QP.
[[nodiscard]] ibv_ah_attr ah_attributes(const UdDestination& to, std::uint8_t port) noexcept;

}  // namespace wireup::verbs
