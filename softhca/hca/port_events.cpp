// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/port_events.hpp"

#include <algorithm>

#include "softhca/hca/event_channel.hpp"

namespace softhca::hca {
namespace {

bool is_active(const PortRecord& port) {
  return port.present != 0 && port.state == kPortActive;
}

void compare(const PortRecord& before, const PortRecord& after, std::vector<PortEvent>& events) {
  const auto raise = [&](bool changed, ibv_event_type type) {
    if (changed) {
      events.push_back({after.hca_index, after.port_num, type});
    }
  };
  raise(is_active(before) && !is_active(after), IBV_EVENT_PORT_ERR);
  raise(!is_active(before) && is_active(after), IBV_EVENT_PORT_ACTIVE);
  raise(before.lid != after.lid || before.lmc != after.lmc, IBV_EVENT_LID_CHANGE);
  raise(before.gid_count != after.gid_count || before.gids != after.gids, IBV_EVENT_GID_CHANGE);
  raise(before.pkey_count != after.pkey_count || before.pkeys != after.pkeys,
        IBV_EVENT_PKEY_CHANGE);
  raise(before.sm_lid != after.sm_lid || before.sm_sl != after.sm_sl, IBV_EVENT_SM_CHANGE);
  raise(before.client_reregister == 0 && after.client_reregister != 0, IBV_EVENT_CLIENT_REREGISTER);
}

}  // namespace

std::vector<PortEvent> port_events(const FabricModel& before, const FabricModel& after) {
  std::vector<PortEvent> events;
  const std::size_t known = std::min(before.ports.size(), after.ports.size());
  for (std::size_t i = 0; i < known; ++i) {
    compare(before.ports[i], after.ports[i], events);
  }
  return events;
}

std::uint32_t announce(const Registry& registry, const FabricModel& before,
                       const FabricModel& after) {
  std::uint32_t told = 0;
  for (const PortEvent& event : port_events(before, after)) {
    told += send_port_event(registry, event.hca, event.port_num, event.type);
  }
  return told;
}

}  // namespace softhca::hca
