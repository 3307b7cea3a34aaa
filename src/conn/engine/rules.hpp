// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cm/engine/types.hpp"
#include "conn/engine/types.hpp"
#include "mad/path_record.hpp"

// What a connection and a path without one are both held to.
namespace wireup::conn {

/// May a peer be asked for, until `deadline`? `call` begins the message: "connect to".
/// Errc::InvalidArgument (rank outside the job, deadline not in the future), Errc::Unsupported
/// (another job).
[[nodiscard]] Result<> check_peer(const Config& config, const PeerId& peer, Instant deadline,
                                  Instant now, const char* call);

/// Can a queue pair or an address handle of our port be programmed with this record?
/// Errc::PathUnresolved when not.
[[nodiscard]] Result<> check_record(const Config& config, const mad::PathRecord& record);

/// Where the record leads: to the queue pair `qpn` there. `base_lid` is our port's first LID.
[[nodiscard]] cm::Address address_of(const mad::PathRecord& record, Lid base_lid, Qpn qpn) noexcept;

}  // namespace wireup::conn
