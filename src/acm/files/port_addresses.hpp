// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/problems.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// An address of a port of this node, in a partition.
struct PortAddress {
  /// A name, or an IPv4 or IPv6 address.
  mad::AcmAddress address;
  std::string device;
  /// 1 to 254.
  std::uint8_t port = 1;
  /// None: the P_Key at index 0 of the port's table, whatever it is. Others may have the membership
  /// bit or not: compare partitions.
  std::optional<PKey> pkey;
  friend bool operator==(const PortAddress&, const PortAddress&) noexcept = default;
};

/// Whether the address file may hold IP addresses (option support_ips_in_addr_cfg). Otherwise they
/// come from the system's interfaces.
enum class IpAddresses : bool { Refused, Allowed };

/// Reads ibacm_addr.cfg: lines "address device port pkey", in the order of the file. `file` is its
/// name in messages. Errc::InvalidArgument for each line that is not of this form.
[[nodiscard]] Parsed<std::vector<PortAddress>> parse_port_addresses(std::string_view text,
                                                                    std::string_view file,
                                                                    IpAddresses ip_addresses);

}  // namespace wireup::acm
