// SPDX-License-Identifier: BSD-3-Clause
// Tells the programs on the fabric what has changed at their ports, as a driver would.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "softhca/fabric/fabric_model.hpp"
#include "softhca/hca/registry.hpp"

namespace softhca {

/// Not thread-safe: the thread that publishes the fabric uses it.
class PortAnnouncer {
 public:
  /// `dir` is the fabric's run directory.
  explicit PortAnnouncer(std::string dir) : dir_(std::move(dir)) {}

  /// Raises the events that the difference between two published images means. Call after the
  /// second one is published, so that whoever is woken sees it.
  void changed(const FabricModel& before, const FabricModel& after);

  /// Raises IBV_EVENT_CLIENT_REREGISTER at a port: the subnet manager has set the ClientReregister
  /// bit in its PortInfo, which is an order and not a state, so no image shows it.
  void client_reregister(const FabricModel& model, PortIndex port);

 private:
  /// The registry of the emulated HCAs; nullptr, with a line in the log, when it cannot be mapped.
  hca::Registry* registry();

  std::string dir_;
  std::unique_ptr<hca::Registry> registry_;
};

}  // namespace softhca
