// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/port_announcer.hpp"

#include <cerrno>
#include <cstring>

#include "softhca/agent/log.hpp"
#include "softhca/hca/event_channel.hpp"
#include "softhca/hca/port_events.hpp"

namespace softhca {

hca::Registry* PortAnnouncer::registry() {
  if (registry_ == nullptr) {
    registry_ = hca::Registry::attach(dir_.c_str());
    if (registry_ == nullptr) {
      log_limited("cannot map %s/%s: %s; programs are not told of changes", dir_.c_str(),
                  hca::kRegistryFile, std::strerror(errno));
    }
  }
  return registry_.get();
}

void PortAnnouncer::changed(const FabricModel& before, const FabricModel& after) {
  if (hca::port_events(before, after).empty()) {
    return;
  }
  if (const hca::Registry* objects = registry()) {
    hca::announce(*objects, before, after);
  }
}

void PortAnnouncer::client_reregister(const FabricModel& model, PortIndex port) {
  if (port >= model.ports.size()) {
    return;
  }
  if (const hca::Registry* objects = registry()) {
    const PortRecord& record = model.ports[port];
    hca::send_port_event(*objects, record.hca_index, record.port_num, IBV_EVENT_CLIENT_REREGISTER);
  }
}

}  // namespace softhca
