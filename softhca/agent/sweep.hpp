// SPDX-License-Identifier: BSD-3-Clause
// One walk over the whole fabric by directed-route SMPs, into a FabricModel.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "softhca/agent/smp_client.hpp"
#include "softhca/fabric/fabric_model.hpp"

namespace softhca {

/// Walks the fabric again and again. Indexes in the model never change their meaning: what was
/// seen once keeps its place, and an HCA that cannot be reached any more stays with its ports
/// down, as a host keeps an HCA whose cable was pulled. Not thread-safe.
class Sweeper {
 public:
  /// `known` is what an earlier agent published (may be empty). `same_fabric` false: none of it is
  /// taken to exist until a sweep finds it.
  Sweeper(SmpClient& client, FabricModel known, bool same_fabric);

  /// Sweeps once. False when the fabric did not answer at all; the model then shows every port
  /// down.
  bool sweep();

  [[nodiscard]] const FabricModel& model() const { return model_; }

  /// The way to an HCA port that the last sweep reached.
  [[nodiscard]] std::optional<DirectedPath> path_to(PortIndex port) const;

  /// True while a cabled port (link up) is not ACTIVE, that is, while a subnet manager is at work
  /// or missing.
  [[nodiscard]] bool settling() const { return settling_; }

 private:
  struct SwitchVisit {
    std::uint32_t index = 0;
    DirectedPath path;
  };
  struct PortVisit {
    PortIndex index = 0;
    DirectedPath path;
    NodeInfo node;
  };

  /// Registers a node found at the end of `path`; its index. First meeting in this sweep puts it on
  /// the lists of what is to be read.
  std::uint32_t meet_switch(const NodeInfo& info, const DirectedPath& path);
  PortIndex meet_port(const NodeInfo& info, const DirectedPath& path);
  void begin();
  [[nodiscard]] SwitchPortRecord earlier_port(std::uint32_t index, std::uint32_t port) const;
  void walk_switch(const SwitchVisit& visit);
  void read_links(const SwitchVisit& visit);
  void join(const LinkRecord& far, std::uint32_t switch_index, std::uint32_t switch_port);
  void read_ports();
  void read_lfts();
  void read_mfts();
  void read_descriptions();
  void take_port_info(PortRecord& port, const PortInfo& info);

  SmpClient& client_;
  FabricModel model_;
  FabricModel before_;  // as the last sweep left it
  std::map<std::uint64_t, std::uint32_t> switch_of_guid_;
  std::map<std::uint64_t, std::uint32_t> hca_of_guid_;
  std::vector<SwitchVisit> switches_;  // met in this sweep, in the order they are walked
  std::vector<PortVisit> ports_;
  std::set<std::uint32_t> switches_met_;
  std::set<PortIndex> ports_met_;
  std::vector<SwitchInfo> switch_infos_;     // by position in switches_
  std::vector<std::vector<bool>> mft_used_;  // by switch index: blocks that held something
  std::uint64_t count_ = 0;
  bool settling_ = true;
};

}  // namespace softhca
