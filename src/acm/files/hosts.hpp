// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/problems.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// Which port has an address.
struct HostEntry {
  /// A name, or an IPv4 or IPv6 address.
  mad::AcmAddress address;
  Gid gid;
  friend bool operator==(const HostEntry&, const HostEntry&) noexcept = default;
};

/// Reads ibacm_hosts.data: lines "address GID", the GID in IPv6 notation, in the order of the file.
/// A GID may have several addresses. Where an address has several lines the last one counts for
/// ibacm; all are returned. `file` is the file's name in messages. Errc::InvalidArgument for each
/// line that is not of this form, and for GIDs that are zero or multicast.
[[nodiscard]] Parsed<std::vector<HostEntry>> parse_hosts(std::string_view text,
                                                         std::string_view file);

}  // namespace wireup::acm
