// SPDX-License-Identifier: BSD-3-Clause
#include "acm/identity/subnet_tables.hpp"

#include <algorithm>
#include <string>

namespace wireup::acm {

std::vector<DescribedPort> described_ports(std::span<const mad::NodeRecord> records,
                                           std::uint64_t prefix) {
  std::vector<DescribedPort> ports;
  for (const mad::NodeRecord& record : records) {
    // Switches and routers are nobody's endpoint.
    if (record.node_type == mad::kNodeChannelAdapter && !record.port_guid.is_zero()) {
      ports.push_back({Gid::make(prefix, record.port_guid), record.local_port,
                       std::string(record.description_text())});
    }
  }
  return ports;
}

std::vector<Guid> port_guids(std::span<const mad::NodeRecord> records) {
  std::vector<Guid> guids;
  guids.reserve(records.size());
  for (const mad::NodeRecord& record : records) {
    guids.push_back(record.port_guid);
  }
  return guids;
}

std::vector<RegisteredService> registered_services(std::span<const mad::ServiceRecord> records) {
  std::vector<RegisteredService> services;
  for (const mad::ServiceRecord& record : records) {
    if (record.service_gid.is_zero() || record.service_gid.is_multicast()) {
      continue;
    }
    RegisteredService service{std::string(record.name_text()), record.service_gid, record.pkey, {}};
    std::copy_n(record.data.begin(), service.data.size(), service.data.begin());
    services.push_back(std::move(service));
  }
  return services;
}

}  // namespace wireup::acm
