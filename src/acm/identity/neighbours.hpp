// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

// The kernel's neighbour table over netlink (rtnetlink(7)): who has which IP address on an IPoIB
// interface. The hardware address there has 20 bytes: flags, a QPN of 24 bits, and the port's GID.
// Host byte order, as it never leaves the host. Nothing here does I/O.

/// A port that the kernel knows the IP address of.
struct Neighbour {
  /// IPv4 or IPv6.
  mad::AcmAddress address;
  Gid gid;
  friend bool operator==(const Neighbour&, const Neighbour&) noexcept = default;
};

inline constexpr std::size_t kNeighbourRequestSize = 28;
/// "Give me the whole table", for every family.
[[nodiscard]] std::array<std::uint8_t, kNeighbourRequestSize> neighbour_request(
    std::uint32_t sequence) noexcept;

/// Reads one datagram of the answer and appends to `found` what is of use: entries of IPoIB whose
/// address is known, and not those that are being looked for, have failed, or are of a multicast
/// group. Messages of another sequence are skipped. True: the table ends here. Errc::Malformed:
/// lengths that cannot be. Errc::NoPermission, Errc::NoResources: the kernel refused.
[[nodiscard]] Result<bool> parse_neighbours(std::span<const std::uint8_t> datagram,
                                            std::uint32_t sequence, std::vector<Neighbour>& found);

}  // namespace wireup::acm
