// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "mad/path_record.hpp"
#include "verbs/device.hpp"
#include "verbs/port_info.hpp"

namespace wireup::acm {

/// Errc::NoDevice: there is no such port.
[[nodiscard]] Result<verbs::PortInfo> query_port(const std::string& device, std::uint8_t port);

/// A device of this host with the port of it that is meant.
struct LocalPort {
  verbs::Device device;
  verbs::PortInfo info;
};

/// The port that a path begins at: the one with its SGID, else its SLID, else an ACTIVE one of the
/// subnet of its DGID, else the first ACTIVE one. Errc::NotFound: none of this host's.
[[nodiscard]] Result<LocalPort> open_port_of(const mad::PathRecord& path);
[[nodiscard]] Result<verbs::PortInfo> find_port(const mad::PathRecord& path);

/// Every InfiniBand port of this host, in the library's order. Devices that cannot be opened are
/// left out.
[[nodiscard]] std::vector<verbs::PortInfo> infiniband_ports();

/// Why devices of this host cannot be opened; empty: all can.
[[nodiscard]] std::vector<Error> device_faults();
/// Errc::NoDevice: there is no such port.
[[nodiscard]] Result<LocalPort> open_local_port(const std::string& device, std::uint8_t port);

/// The GID table up to its last used entry, at most kMaxGids; an unused entry within it is zero.
inline constexpr int kMaxGids = 256;
[[nodiscard]] std::vector<Gid> gids_of(const LocalPort& port);

/// The device of this GUID. Errc::NoDevice: there is none.
[[nodiscard]] Result<verbs::Device> open_device(Guid guid);

}  // namespace wireup::acm
