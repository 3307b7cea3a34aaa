// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "acm/identity/matching.hpp"
#include "base/ids.hpp"
#include "mad/node_record.hpp"
#include "mad/service_record.hpp"

namespace wireup::acm {

/// The ports of channel adapters, with the GIDs that they have by their GUIDs in the subnet of this
/// prefix (host byte order).
[[nodiscard]] std::vector<DescribedPort> described_ports(std::span<const mad::NodeRecord> records,
                                                         std::uint64_t prefix);

/// Of nodes of every kind, in their order.
[[nodiscard]] std::vector<Guid> port_guids(std::span<const mad::NodeRecord> records);

/// Services of unicast GIDs.
[[nodiscard]] std::vector<RegisteredService> registered_services(
    std::span<const mad::ServiceRecord> records);

}  // namespace wireup::acm
