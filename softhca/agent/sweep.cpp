// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/sweep.hpp"

#include <algorithm>

#include "softhca/fabric/fabric_view.hpp"
#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

// What changes rarely (descriptions, tables beyond their used part) is read in every eighth sweep.
constexpr std::uint64_t kRarely = 8;

DirectedPath extend(const DirectedPath& path, std::uint32_t port) {
  DirectedPath longer = path;
  longer.push_back(static_cast<std::uint8_t>(port));
  return longer;
}

std::uint32_t blocks(std::uint32_t entries, std::uint32_t per_block) {
  return (entries + per_block - 1) / per_block;
}

bool has_entries(const SmpData& data) {
  return std::any_of(data.begin(), data.end(), [](std::uint8_t byte) { return byte != 0; });
}

void put_gid(std::array<std::uint8_t, 16>& gid, std::uint64_t prefix, std::uint64_t guid) {
  if (guid == 0) {
    gid.fill(0);
    return;
  }
  put64(gid, 0, prefix);
  put64(gid, 8, guid);
}

}  // namespace

Sweeper::Sweeper(SmpClient& client, FabricModel known, bool same_fabric)
    : client_(client), model_(std::move(known)) {
  for (std::uint32_t i = 0; i < model_.switches.size(); ++i) {
    switch_of_guid_[model_.switches[i].record.node_guid] = i;
  }
  for (std::uint32_t i = 0; i < model_.hcas.size(); ++i) {
    hca_of_guid_[model_.hcas[i].node_guid] = i;
    model_.hcas[i].present = same_fabric ? model_.hcas[i].present : 0;
  }
  for (PortRecord& port : model_.ports) {
    port.present = same_fabric ? port.present : std::uint16_t{0};
  }
  mft_used_.resize(model_.switches.size());
}

void Sweeper::begin() {
  switches_.clear();
  ports_.clear();
  switches_met_.clear();
  ports_met_.clear();
  switch_infos_.clear();
  settling_ = false;
  before_ = model_;
  // Nothing is cabled until this sweep finds the cable.
  for (PortRecord& port : model_.ports) {
    port.link = LinkRecord{};
    port.state = kPortDown;
    port.phys_state = kPhysPolling;
  }
  for (SwitchModel& node : model_.switches) {
    node.record.present = 0;
    for (SwitchPortRecord& port : node.ports) {
      port = SwitchPortRecord{};
    }
  }
}

std::uint32_t Sweeper::meet_switch(const NodeInfo& info, const DirectedPath& path) {
  auto [place, added] = switch_of_guid_.try_emplace(
      info.node_guid, static_cast<std::uint32_t>(model_.switches.size()));
  const std::uint32_t index = place->second;
  if (added) {
    model_.switches.emplace_back();
    model_.switches.back().record.node_guid = info.node_guid;
    mft_used_.emplace_back();
  }
  if (switches_met_.insert(index).second) {
    SwitchModel& node = model_.switches[index];
    node.record.present = 1;
    node.record.port_count = info.num_ports;
    node.ports.resize(std::size_t{info.num_ports} + 1);
    switches_.push_back({index, path});
  }
  return index;
}

PortIndex Sweeper::meet_port(const NodeInfo& info, const DirectedPath& path) {
  auto [place, added] =
      hca_of_guid_.try_emplace(info.node_guid, static_cast<std::uint32_t>(model_.hcas.size()));
  if (added) {
    HcaRecord hca;
    hca.node_guid = info.node_guid;
    hca.port_count = std::min<std::uint32_t>(info.num_ports, kMaxPortsPerHca);
    for (std::uint32_t i = 0; i < hca.port_count; ++i) {
      PortRecord port;
      port.node_guid = info.node_guid;
      port.hca_index = place->second;
      port.port_num = static_cast<std::uint8_t>(i + 1);
      hca.ports[i] = static_cast<PortIndex>(model_.ports.size());
      model_.ports.push_back(port);
    }
    model_.hcas.push_back(hca);
  }
  HcaRecord& hca = model_.hcas[place->second];
  hca.present = 1;
  hca.system_image_guid = info.system_image_guid;
  hca.vendor_id = info.vendor_id;
  hca.device_id = info.device_id;
  hca.revision = info.revision;
  hca.partition_cap = info.partition_cap;
  if (info.local_port == 0 || info.local_port > hca.port_count) {
    return kNoPort;
  }
  for (std::uint32_t i = 0; i < hca.port_count; ++i) {
    model_.ports[hca.ports[i]].present = 1;
  }
  const PortIndex index = hca.ports[info.local_port - 1];
  model_.ports[index].port_guid = info.port_guid;
  if (ports_met_.insert(index).second) {
    ports_.push_back({index, path, info});
  }
  return index;
}

std::optional<DirectedPath> Sweeper::path_to(PortIndex port) const {
  const auto found = std::find_if(ports_.begin(), ports_.end(),
                                  [port](const PortVisit& visit) { return visit.index == port; });
  return found == ports_.end() ? std::nullopt : std::optional(found->path);
}

bool Sweeper::sweep() {
  ++count_;
  begin();
  const SmpReply home = client_.get({}, kAttrNodeInfo);
  if (!home.ok) {
    settling_ = true;
    return false;
  }
  const NodeInfo info = get_node_info(home.data);
  if (info.node_type == static_cast<std::uint8_t>(NodeType::Switch)) {
    meet_switch(info, {});
  } else {
    const PortIndex port = meet_port(info, {});
    const DirectedPath out = {info.local_port};
    const SmpReply peer = client_.get(out, kAttrNodeInfo);
    if (port != kNoPort && peer.ok) {
      const NodeInfo far = get_node_info(peer.data);
      if (far.node_type == static_cast<std::uint8_t>(NodeType::Switch)) {
        meet_switch(far, out);
      } else {
        const PortIndex other = meet_port(far, out);
        if (other != kNoPort) {
          model_.ports[port].link = {LinkKind::HcaPort, other, far.local_port, 0};
          model_.ports[other].link = {LinkKind::HcaPort, port, info.local_port, 0};
        }
      }
    }
  }
  for (std::size_t i = 0; i < switches_.size(); ++i) {
    walk_switch(SwitchVisit(switches_[i]));
  }
  read_ports();
  read_lfts();
  read_mfts();
  read_descriptions();
  return client_.alive();
}

void Sweeper::walk_switch(const SwitchVisit& visit) {
  const std::uint32_t count = model_.switches[visit.index].record.port_count;
  std::vector<SmpRequest> requests = {{visit.path, kAttrSwitchInfo, 0}};
  for (std::uint32_t port = 0; port <= count; ++port) {
    requests.push_back({visit.path, kAttrPortInfo, port});
  }
  const std::vector<SmpReply> replies = client_.exchange(requests);
  switch_infos_.push_back(replies[0].ok ? get_switch_info(replies[0].data) : SwitchInfo{});
  SwitchModel& node = model_.switches[visit.index];
  for (std::uint32_t port = 0; port <= count; ++port) {
    const SmpReply& reply = replies[port + 1];
    if (!reply.ok) {
      // Not an answer is not a change: the port keeps what it had.
      node.ports[port] = earlier_port(visit.index, port);
      settling_ = true;
      continue;
    }
    const PortInfo info = get_port_info(reply.data);
    if (port == 0) {
      node.record.lid = info.lid;
      continue;
    }
    node.ports[port].state = info.state;
    node.ports[port].phys_state = info.phys_state;
  }
  read_links(visit);
}

void Sweeper::read_links(const SwitchVisit& visit) {
  std::vector<SmpRequest> requests;
  std::vector<std::uint32_t> asked;
  if (visit.path.size() >= kMaxHops) {
    return;
  }
  for (std::uint32_t port = 1; port < model_.switches[visit.index].ports.size(); ++port) {
    const SwitchPortRecord& record = model_.switches[visit.index].ports[port];
    if (record.phys_state != kPhysLinkUp || record.state <= kPortDown ||
        record.link.kind != LinkKind::None) {
      continue;  // no cable, or known from its other end
    }
    requests.push_back({extend(visit.path, port), kAttrNodeInfo, 0});
    asked.push_back(port);
  }
  const std::vector<SmpReply> replies = client_.exchange(requests);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!replies[i].ok) {
      const LinkRecord link = earlier_port(visit.index, asked[i]).link;
      if (link.kind != LinkKind::None) {
        join(link, visit.index, asked[i]);
      }
      settling_ = true;
      continue;
    }
    const NodeInfo info = get_node_info(replies[i].data);
    if (info.node_type == static_cast<std::uint8_t>(NodeType::Switch)) {
      const std::uint32_t far = meet_switch(info, requests[i].path);
      join({LinkKind::SwitchPort, far, info.local_port, 0}, visit.index, asked[i]);
    } else {
      const PortIndex far = meet_port(info, requests[i].path);
      if (far != kNoPort) {
        join({LinkKind::HcaPort, far, info.local_port, 0}, visit.index, asked[i]);
      }
    }
  }
}

SwitchPortRecord Sweeper::earlier_port(std::uint32_t index, std::uint32_t port) const {
  if (index >= before_.switches.size() || port >= before_.switches[index].ports.size()) {
    return {};
  }
  return before_.switches[index].ports[port];
}

void Sweeper::join(const LinkRecord& far, std::uint32_t switch_index, std::uint32_t switch_port) {
  const LinkRecord near = {LinkKind::SwitchPort, switch_index, switch_port, 0};
  SwitchModel& node = model_.switches[switch_index];
  if (far.kind == LinkKind::HcaPort) {
    node.ports[switch_port].link = far;
    PortRecord& port = model_.ports[far.index];
    port.link = near;
    if (ports_met_.count(far.index) == 0 && far.index < before_.ports.size()) {
      port.state = before_.ports[far.index].state;
      port.phys_state = before_.ports[far.index].phys_state;
    }
    return;
  }
  SwitchModel& other = model_.switches[far.index];
  if (far.port == 0 || far.port >= other.ports.size()) {
    return;
  }
  node.ports[switch_port].link = far;
  other.ports[far.port].link = near;
  if (node.ports[switch_port].state != kPortActive) {
    settling_ = true;
  }
}

void Sweeper::take_port_info(PortRecord& port, const PortInfo& info) {
  port.m_key = info.m_key;
  port.subnet_prefix = info.gid_prefix;
  port.lid = info.lid;
  port.lmc = info.lmc;
  port.sm_lid = info.sm_lid;
  port.sm_sl = info.sm_sl;
  port.cap_mask = info.cap_mask | kCapClientReregister;
  port.cap_mask2 = info.cap_mask2;
  port.state = info.state;
  port.phys_state = info.phys_state;
  port.active_mtu = info.neighbor_mtu;
  port.max_mtu = info.mtu_cap;
  port.active_width = info.width_active;
  port.active_speed = info.speed_active;
  port.active_speed_ext = info.speed_ext_active;
  port.vl_cap = info.vl_cap;
  port.subnet_timeout = info.subnet_timeout;
  port.init_type_reply = info.init_type_reply;
  port.client_reregister = info.client_reregister;
  port.pkey_violations = info.pkey_violations;
  port.qkey_violations = info.qkey_violations;
  port.gid_count =
      static_cast<std::uint16_t>(std::clamp<std::uint32_t>(info.guid_cap, 1, kMaxGids));
}

void Sweeper::read_ports() {
  enum class What { Port, Pkeys, Guids };
  struct Asked {
    What what;
    PortIndex port;
    std::uint32_t block;
  };
  const bool all = count_ % kRarely == 1;
  std::vector<SmpRequest> requests;
  std::vector<Asked> asked;
  for (const PortVisit& visit : ports_) {
    requests.push_back({visit.path, kAttrPortInfo, visit.node.local_port});
    asked.push_back({What::Port, visit.index, 0});
    PortRecord& port = model_.ports[visit.index];
    port.pkey_count = std::min<std::uint16_t>(visit.node.partition_cap, kMaxPkeys);
    const std::uint32_t pkey_blocks = blocks(port.pkey_count, kPkeysPerBlock);
    for (std::uint32_t block = 0; block < (all ? pkey_blocks : std::min(pkey_blocks, 1U));
         ++block) {
      requests.push_back({visit.path, kAttrPkeyTable, block});
      asked.push_back({What::Pkeys, visit.index, block});
    }
    for (std::uint32_t block = 0; block < (all ? kMaxGids / kGuidsPerBlock : 1); ++block) {
      requests.push_back({visit.path, kAttrGuidInfo, block});
      asked.push_back({What::Guids, visit.index, block});
    }
    // The HCA's other ports, which no cable may lead to.
    const HcaRecord& hca = model_.hcas[port.hca_index];
    for (std::uint32_t i = 0; i < hca.port_count; ++i) {
      if (ports_met_.count(hca.ports[i]) == 0) {
        requests.push_back({visit.path, kAttrPortInfo, i + 1});
        asked.push_back({What::Port, hca.ports[i], 0});
      }
    }
  }
  const std::vector<SmpReply> replies = client_.exchange(requests);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!replies[i].ok) {
      if (asked[i].what == What::Port && asked[i].port < before_.ports.size()) {
        model_.ports[asked[i].port].state = before_.ports[asked[i].port].state;
        model_.ports[asked[i].port].phys_state = before_.ports[asked[i].port].phys_state;
      }
      settling_ = true;
      continue;
    }
    const SmpData& data = replies[i].data;
    PortRecord& port = model_.ports[asked[i].port];
    switch (asked[i].what) {
      case What::Port:
        take_port_info(port, get_port_info(data));
        break;
      case What::Pkeys:
        for (std::uint32_t k = 0; k < kPkeysPerBlock; ++k) {
          const std::uint32_t slot = asked[i].block * kPkeysPerBlock + k;
          if (slot < port.pkey_count) {
            port.pkeys[slot] = get16(data, std::size_t{k} * 2);
          }
        }
        break;
      case What::Guids:
        for (std::uint32_t k = 0; k < kGuidsPerBlock; ++k) {
          const std::uint32_t slot = asked[i].block * kGuidsPerBlock + k;
          if (slot < port.gid_count) {
            put_gid(port.gids[slot], port.subnet_prefix, get64(data, std::size_t{k} * 8));
          }
        }
        break;
    }
  }
  for (const PortIndex index : ports_met_) {
    PortRecord& port = model_.ports[index];
    // GID 0 is the port GUID whatever the table says (IBTA vol 1, 14.2.5.5).
    put_gid(port.gids[0], port.subnet_prefix, port.port_guid);
    settling_ = settling_ || (port.phys_state == kPhysLinkUp && port.state != kPortActive);
  }
}

void Sweeper::read_lfts() {
  std::vector<SmpRequest> requests;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> asked;  // switch index, block
  for (std::size_t i = 0; i < switches_.size(); ++i) {
    const std::uint32_t top = std::min<std::uint32_t>(switch_infos_[i].linear_top, kLftEntries - 1);
    model_.switches[switches_[i].index].lft.resize(std::size_t{top} + 1, kLftNoPort);
    for (std::uint32_t block = 0; block <= top / kLidsPerLftBlock; ++block) {
      requests.push_back({switches_[i].path, kAttrLinearForwarding, block});
      asked.emplace_back(switches_[i].index, block);
    }
  }
  const std::vector<SmpReply> replies = client_.exchange(requests);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::vector<std::uint8_t>& lft = model_.switches[asked[i].first].lft;
    const std::size_t first = std::size_t{asked[i].second} * kLidsPerLftBlock;
    if (replies[i].ok && first < lft.size()) {
      std::copy_n(replies[i].data.begin(),
                  std::min<std::size_t>(kLidsPerLftBlock, lft.size() - first),
                  lft.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
}

void Sweeper::read_mfts() {
  struct Asked {
    std::uint32_t index;
    std::uint32_t block;
    std::uint32_t position;
  };
  std::vector<SmpRequest> requests;
  std::vector<Asked> asked;
  for (std::size_t i = 0; i < switches_.size(); ++i) {
    const SwitchVisit& visit = switches_[i];
    const std::uint32_t entries =
        std::min<std::uint32_t>(switch_infos_[i].multicast_cap, kMftEntries);
    const std::uint32_t all_blocks = blocks(entries, kMlidsPerMftBlock);
    std::vector<bool>& used = mft_used_[visit.index];
    used.resize(all_blocks, false);
    const std::uint32_t positions =
        blocks(model_.switches[visit.index].record.port_count + 1, kPortsPerMftPosition);
    for (std::uint32_t block = 0; block < all_blocks; ++block) {
      // MLIDs are handed out from the bottom, so the used blocks and the one after them are read
      // every time; the others take turns, in case some subnet manager does otherwise.
      const bool next_to_used = block == 0 || used[block - 1];
      if (!used[block] && !next_to_used && block % kRarely != count_ % kRarely) {
        continue;
      }
      for (std::uint32_t position = 0; position < positions; ++position) {
        requests.push_back({visit.path, kAttrMulticastForwarding, position << 28 | block});
        asked.push_back({visit.index, block, position});
      }
    }
  }
  const std::vector<SmpReply> replies = client_.exchange(requests);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Asked& what = asked[i];
    if (!replies[i].ok) {
      continue;
    }
    put_mft_block(model_.switches[what.index].mft, what.block, what.position, replies[i].data);
    if (what.position == 0) {
      mft_used_[what.index][what.block] = false;
    }
    if (has_entries(replies[i].data)) {
      mft_used_[what.index][what.block] = true;
    }
  }
}

void Sweeper::read_descriptions() {
  std::vector<SmpRequest> requests;
  std::vector<std::array<char, 64>*> targets;
  const bool all = count_ % kRarely == 1;
  for (const SwitchVisit& visit : switches_) {
    auto& description = model_.switches[visit.index].record.description;
    if (all || description[0] == '\0') {
      requests.push_back({visit.path, kAttrNodeDescription, 0});
      targets.push_back(&description);
    }
  }
  for (const PortVisit& visit : ports_) {
    auto& description = model_.hcas[model_.ports[visit.index].hca_index].description;
    if (all || description[0] == '\0') {
      requests.push_back({visit.path, kAttrNodeDescription, 0});
      targets.push_back(&description);
    }
  }
  const std::vector<SmpReply> replies = client_.exchange(requests);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (replies[i].ok) {
      std::transform(replies[i].data.begin(), replies[i].data.end(), targets[i]->begin(),
                     [](std::uint8_t byte) { return static_cast<char>(byte); });
    }
  }
}

}  // namespace softhca
