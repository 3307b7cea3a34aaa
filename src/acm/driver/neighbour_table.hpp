// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "acm/server/kernel_service.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// The IP addresses of other ports that this host's IPoIB interfaces have talked to, as the kernel
/// keeps them. Read as a whole and kept for a second. Needs no privilege. Not thread-safe; never
/// blocks, since the kernel answers while it is asked.
class NeighbourTable {
 public:
  /// Errc::Unsupported or Errc::NoResources: no rtnetlink.
  [[nodiscard]] static Result<NeighbourTable> open();
  /// With a socket, and calls on it, of the caller's.
  explicit NeighbourTable(UniqueFd socket, const NetlinkOps& ops = system_netlink()) noexcept
      : socket_(std::move(socket)), ops_(&ops) {}

  /// Which port has the IP address; nothing when the kernel does not know, or for another kind of
  /// address. Errc::Malformed, Errc::NoPermission, Errc::NoResources: the table could not be read.
  [[nodiscard]] Result<std::optional<Gid>> find(const mad::AcmAddress& address, Instant now);

 private:
  [[nodiscard]] Result<> read();

  UniqueFd socket_;
  const NetlinkOps* ops_;
  std::uint32_t sequence_ = 0;
  std::map<mad::AcmAddress, Gid> entries_;
  std::optional<Instant> read_at_;
};

}  // namespace wireup::acm
