// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "base/ids.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// What the engine must know of its port, partition and queue pair.
struct PortIdentity {
  Gid gid;
  /// The base LID; the port has 2^lmc LIDs from it on.
  Lid lid;
  std::uint8_t lmc = 0;
  PKey pkey;
  Qpn qpn;
  /// Codes of mad/rate.hpp.
  std::uint8_t mtu = 0;
  std::uint8_t rate = 0;
  /// PortInfo:SubnetTimeOut, 4.096 us * 2^it.
  std::uint8_t subnet_timeout = 0;
  friend constexpr bool operator==(const PortIdentity&, const PortIdentity&) noexcept = default;
};

/// Is it one of the port's LIDs?
[[nodiscard]] bool has_lid(const PortIdentity& port, Lid lid) noexcept;

/// The lifetime to take for a path whose source names none: the subnet's timeout, at most OpenSM's
/// default of 18 (1 s); that also where the port has none. As coded in records.
[[nodiscard]] constexpr std::uint8_t usual_lifetime(std::uint8_t subnet_timeout) noexcept {
  constexpr std::uint8_t kUsual = 18;
  return subnet_timeout == 0 || subnet_timeout > kUsual ? kUsual : subnet_timeout;
}

/// The path from the port to itself: its own LID, MTU and rate, no hop.
[[nodiscard]] mad::PathRecord local_path(const PortIdentity& port) noexcept;

}  // namespace wireup::acm
