// SPDX-License-Identifier: BSD-3-Clause
// Which asynchronous events a change of the fabric means for the programs on it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "softhca/fabric/fabric_model.hpp"
#include "softhca/hca/registry.hpp"

namespace softhca::hca {

struct PortEvent {
  std::uint32_t hca = 0;  // index in the model
  std::uint8_t port_num = 0;
  ibv_event_type type = IBV_EVENT_PORT_ERR;

  bool operator==(const PortEvent&) const = default;
};

/// The events between two looks at the fabric, in the order a driver raises them: state, LID,
/// GIDs, P_Keys, subnet manager, client reregister. Ports that are new raise none. Pure.
std::vector<PortEvent> port_events(const FabricModel& before, const FabricModel& after);

/// Sends them to every context that has the HCA open. Returns how many contexts were told. For the
/// fabric agent, after it has published `after`.
std::uint32_t announce(const Registry& registry, const FabricModel& before,
                       const FabricModel& after);

}  // namespace softhca::hca
