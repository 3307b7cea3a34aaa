// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "base/ids.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// What the engine must know of its port, partition and queue pair.
struct PortIdentity {
  Gid gid;
  Lid lid;
  PKey pkey;
  Qpn qpn;
  /// Codes of mad/rate.hpp.
  std::uint8_t mtu = 0;
  std::uint8_t rate = 0;
  friend constexpr bool operator==(const PortIdentity&, const PortIdentity&) noexcept = default;
};

/// The path from the port to itself: its own LID, MTU and rate, no hop.
[[nodiscard]] mad::PathRecord local_path(const PortIdentity& port) noexcept;

}  // namespace wireup::acm
