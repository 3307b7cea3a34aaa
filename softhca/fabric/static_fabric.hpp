// SPDX-License-Identifier: BSD-3-Clause
// A fabric without ibsim and OpenSM, for unit tests: describe it, let the tables be computed or set
// them by hand, publish it in a directory, change it and publish again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "softhca/fabric/fabric_model.hpp"
#include "softhca/fabric/fabric_view.hpp"
#include "softhca/fabric/fabric_writer.hpp"

namespace softhca {

/// The writer of a fabric in `dir` for as long as the object lives. Not thread-safe.
class StaticFabric {
 public:
  /// nullptr with errno when the directory cannot be written or has a living writer.
  static std::unique_ptr<StaticFabric> create(const char* dir);

  /// Adds a switch with ports 1..port_count; returns its index.
  std::uint32_t add_switch(std::uint32_t port_count);

  /// Adds an HCA of host `host` with `ports` ports, all down and not cabled, 4x EDR capable, MTU
  /// 4096. Returns the PortIndex of port 1; the others follow.
  PortIndex add_hca(std::string_view host, std::uint32_t ports = 1);

  /// Cables an HCA port to a switch port.
  void link(PortIndex port, std::uint32_t switch_index, std::uint32_t switch_port);
  /// Cables two switches.
  void link_switches(std::uint32_t a, std::uint32_t a_port, std::uint32_t b, std::uint32_t b_port);

  /// Does the subnet manager's part: LIDs from 1 up in steps of 2^lmc for ports without one, every
  /// cabled port ACTIVE, shortest-path LFTs.
  void bring_up(std::uint8_t lmc = 0);

  /// Sets the MFT entries of `mlid` on a tree that spans `members` and nothing else.
  void set_group(std::uint16_t mlid, const std::vector<PortIndex>& members);

  /// The description itself, to change anything by hand.
  FabricModel& model() { return model_; }

  /// Makes the present description visible to readers. False with errno when it is malformed.
  bool publish();

 private:
  explicit StaticFabric(std::unique_ptr<FabricWriter> writer) : writer_(std::move(writer)) {}

  std::unique_ptr<FabricWriter> writer_;
  FabricModel model_;
};

/// A two-host fabric in one call: hosts H1 and H2 (add more with `hosts`) on one switch, all
/// ACTIVE with LIDs 1, 2, …, published.
std::unique_ptr<StaticFabric> make_star_fabric(const char* dir, std::uint32_t hosts = 2);

}  // namespace softhca
