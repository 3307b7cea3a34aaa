// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// What a datagram of the kernel's rtnetlink says besides links and addresses.
enum class RouteNews : std::uint8_t {
  None,
  /// The end of what was asked for.
  Done,
  /// Something was lost or is not to be trusted: ask for everything again.
  Lost,
};

/// The IP addresses of this host's IPoIB interfaces, by port and partition, as the kernel's
/// rtnetlink messages tell: an interface has the GID of its port in its link address of 20 bytes
/// (from byte 4), and its P_Key in the broadcast address (bytes 8 and 9; RFC 4391).
///
/// Pure and comparable; lengths in messages are not believed.
class IpoibAddresses {
 public:
  /// Takes all messages of a datagram. `sequence`: of the dump that is under way; other dumps' ends
  /// are ignored.
  RouteNews handle(std::span<const std::uint8_t> datagram, std::uint32_t sequence);

  /// Of the interfaces that are up, on the port with this GID and in the partition of this P_Key.
  [[nodiscard]] std::vector<mad::AcmAddress> of(const Gid& gid, PKey pkey) const;
  [[nodiscard]] std::size_t links() const noexcept { return links_.size(); }
  friend bool operator==(const IpoibAddresses&, const IpoibAddresses&) noexcept = default;

 private:
  struct Link {
    Gid gid;
    PKey pkey;
    bool is_up = false;
    friend bool operator==(const Link&, const Link&) noexcept = default;
  };

  void handle_link(std::uint16_t type, std::span<const std::uint8_t> body);
  void handle_address(std::uint16_t type, std::span<const std::uint8_t> body);

  /// By interface number.
  std::map<std::int32_t, Link> links_;
  /// Of all interfaces: the dump has the links first, but events come in any order.
  std::set<std::pair<std::int32_t, mad::AcmAddress>> addresses_;
};

}  // namespace wireup::acm
