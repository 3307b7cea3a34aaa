// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/result.hpp"
#include "cm/engine/types.hpp"
#include "mad/cm.hpp"

namespace wireup::cm {

/// The REQ of a connect, but for TID and communication id. Errc::InvalidArgument when a code of the
/// path does not fit its field or the alternate path differs in P_Key or MTU or has no local LID.
[[nodiscard]] Result<mad::Req> make_req(const ConnectParams& params, const Config& config);

/// A path record as REQ and LAP have it, with the local ACK timeout of its lifetime.
/// Errc::InvalidArgument when its rate code does not fit its field.
[[nodiscard]] Result<mad::ReqPath> make_path(const mad::PathRecord& record, const Config& config);

/// Whether a REQ asks for an XRC connection: its REP names the target's queue pair in the EECN.
[[nodiscard]] constexpr bool is_xrc(mad::TransportService service,
                                    mad::ExtendedTransport transport) noexcept {
  return service == mad::TransportService::Extended && transport == mad::ExtendedTransport(1);
}

/// How long after a message the answer is late by IBA's timers: two packet lifetimes and the
/// peer's response timeout (IBTA vol 1, 12.9.8.5 for the REQ; a LAP and a SIDR_REQ alike).
[[nodiscard]] Duration iba_interval(const mad::PathRecord& path,
                                    IbTimeout response_timeout) noexcept;

}  // namespace wireup::cm
