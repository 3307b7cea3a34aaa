// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/static_fabric.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

namespace softhca {
namespace {

constexpr std::uint64_t kHcaGuidBase = 0x0002c90300a00000;
constexpr std::uint64_t kSwitchGuidBase = 0x0002c90300b00000;
constexpr std::uint64_t kDefaultPrefix = 0xfe80000000000000;

void put_be64(std::uint8_t* to, std::uint64_t value) {
  for (int i = 7; i >= 0; --i) {
    to[i] = static_cast<std::uint8_t>(value & 0xFF);
    value >>= 8;
  }
}

void set_text(std::array<char, 64>& to, std::string_view text) {
  to.fill('\0');
  std::memcpy(to.data(), text.data(), std::min(text.size(), to.size() - 1));
}

void activate(std::uint8_t& state, std::uint8_t& phys_state) {
  state = kPortActive;
  phys_state = kPhysLinkUp;
}

/// For every switch the port by which it reaches switch `target` on a shortest way; 0 where there
/// is none.
std::vector<std::uint8_t> ports_towards(const FabricModel& model, std::uint32_t target) {
  std::vector<std::uint8_t> exits(model.switches.size(), 0);
  std::vector<bool> seen(model.switches.size(), false);
  std::deque<std::uint32_t> todo{target};
  seen[target] = true;
  while (!todo.empty()) {
    const std::uint32_t at = todo.front();
    todo.pop_front();
    for (const SwitchPortRecord& port : model.switches[at].ports) {
      const LinkRecord& link = port.link;
      if (link.kind == LinkKind::SwitchPort && !seen[link.index]) {
        seen[link.index] = true;
        exits[link.index] = static_cast<std::uint8_t>(link.port);
        todo.push_back(link.index);
      }
    }
  }
  return exits;
}

void set_bit(PortMask& mask, std::uint32_t port) {
  mask[port / 64] |= std::uint64_t{1} << (port % 64);
}

}  // namespace

std::unique_ptr<StaticFabric> StaticFabric::create(const char* dir) {
  auto writer = FabricWriter::open(dir);
  if (writer == nullptr) {
    return nullptr;
  }
  return std::unique_ptr<StaticFabric>(new StaticFabric(std::move(writer)));
}

std::uint32_t StaticFabric::add_switch(std::uint32_t port_count) {
  SwitchModel node;
  const auto index = static_cast<std::uint32_t>(model_.switches.size());
  node.record.node_guid = kSwitchGuidBase + index;
  node.record.port_count = port_count;
  node.record.present = 1;
  set_text(node.record.description, "S" + std::to_string(index + 1));
  node.ports.resize(port_count + 1);
  model_.switches.push_back(std::move(node));
  return index;
}

PortIndex StaticFabric::add_hca(std::string_view host, std::uint32_t ports) {
  const auto first = static_cast<PortIndex>(model_.ports.size());
  HcaRecord hca;
  hca.node_guid = kHcaGuidBase + model_.hcas.size() * 0x10;
  hca.system_image_guid = hca.node_guid + 0xF;
  hca.vendor_id = 0x02c9;
  hca.device_id = 4099;
  hca.port_count = std::min(ports, kMaxPortsPerHca);
  hca.present = 1;
  hca.partition_cap = kMaxPkeys;
  set_text(hca.description, std::string(host) + " HCA-1");
  for (std::uint32_t i = 0; i < hca.port_count; ++i) {
    PortRecord port;
    port.node_guid = hca.node_guid;
    port.port_guid = hca.node_guid + i + 1;
    port.subnet_prefix = kDefaultPrefix;
    port.cap_mask = 0x02514868;
    port.hca_index = static_cast<std::uint32_t>(model_.hcas.size());
    port.port_num = static_cast<std::uint8_t>(i + 1);
    port.present = 1;
    port.active_mtu = 5;
    port.max_mtu = 5;
    port.active_width = 2;
    port.active_speed = 4;
    port.active_speed_ext = 2;
    port.vl_cap = 4;
    port.subnet_timeout = 18;
    port.gid_count = 1;
    put_be64(port.gids[0].data(), port.subnet_prefix);
    put_be64(port.gids[0].data() + 8, port.port_guid);
    port.pkey_count = kMaxPkeys;
    port.pkeys[0] = 0xFFFF;
    hca.ports[i] = first + i;
    model_.ports.push_back(port);
  }
  model_.hcas.push_back(hca);
  return first;
}

void StaticFabric::link(PortIndex port, std::uint32_t switch_index, std::uint32_t switch_port) {
  model_.ports.at(port).link = {LinkKind::SwitchPort, switch_index, switch_port, 0};
  model_.switches.at(switch_index).ports.at(switch_port).link = {LinkKind::HcaPort, port,
                                                                 model_.ports[port].port_num, 0};
}

void StaticFabric::link_switches(std::uint32_t a, std::uint32_t a_port, std::uint32_t b,
                                 std::uint32_t b_port) {
  model_.switches.at(a).ports.at(a_port).link = {LinkKind::SwitchPort, b, b_port, 0};
  model_.switches.at(b).ports.at(b_port).link = {LinkKind::SwitchPort, a, a_port, 0};
}

void StaticFabric::bring_up(std::uint8_t lmc) {
  const std::uint32_t step = 1U << lmc;
  std::uint32_t next = step;
  for (const PortRecord& port : model_.ports) {
    next = std::max(next, (port.lid / step + 1) * step);
  }
  for (PortRecord& port : model_.ports) {
    if (port.link.kind == LinkKind::None) {
      continue;
    }
    if (port.lid == 0) {
      port.lid = static_cast<std::uint16_t>(next);
      port.lmc = lmc;
      next += step;
    }
    port.sm_lid = model_.ports.front().lid;
    activate(port.state, port.phys_state);
  }
  for (SwitchModel& node : model_.switches) {
    if (node.record.lid == 0) {
      node.record.lid = static_cast<std::uint16_t>(next++);
    }
    for (SwitchPortRecord& port : node.ports) {
      if (port.link.kind != LinkKind::None) {
        activate(port.state, port.phys_state);
      }
    }
    node.lft.assign(next, kLftNoPort);
  }
  for (SwitchModel& node : model_.switches) {
    node.lft.assign(next, kLftNoPort);
    node.lft[node.record.lid] = 0;
  }
  for (const PortRecord& port : model_.ports) {
    if (port.link.kind != LinkKind::SwitchPort) {
      continue;
    }
    std::vector<std::uint8_t> exits = ports_towards(model_, port.link.index);
    exits[port.link.index] = static_cast<std::uint8_t>(port.link.port);
    for (std::size_t i = 0; i < exits.size(); ++i) {
      for (std::uint32_t lid = port.lid; exits[i] != 0 && lid < port.lid + (1U << port.lmc);
           ++lid) {
        model_.switches[i].lft[lid] = exits[i];
      }
    }
  }
}

void StaticFabric::set_group(std::uint16_t mlid, const std::vector<PortIndex>& members) {
  const std::size_t offset = mlid - kFirstMlid;
  for (SwitchModel& node : model_.switches) {
    node.mft.resize(std::max(node.mft.size(), offset + 1));
    node.mft[offset] = PortMask{};
  }
  if (members.empty()) {
    return;
  }
  // The tree of shortest ways to the first member's switch, cut to what the members need.
  const std::uint32_t root = model_.ports.at(members.front()).link.index;
  const std::vector<std::uint8_t> up = ports_towards(model_, root);
  for (const PortIndex member : members) {
    const LinkRecord& link = model_.ports.at(member).link;
    set_bit(model_.switches[link.index].mft[offset], link.port);
    for (std::uint32_t at = link.index; at != root && up[at] != 0;) {
      const LinkRecord& above = model_.switches[at].ports[up[at]].link;
      set_bit(model_.switches[at].mft[offset], up[at]);
      set_bit(model_.switches[above.index].mft[offset], above.port);
      at = above.index;
    }
  }
}

bool StaticFabric::publish() {
  return writer_->publish(model_);
}

std::unique_ptr<StaticFabric> make_star_fabric(const char* dir, std::uint32_t hosts) {
  auto fabric = StaticFabric::create(dir);
  if (fabric == nullptr) {
    return nullptr;
  }
  const std::uint32_t node = fabric->add_switch(hosts);
  for (std::uint32_t i = 1; i <= hosts; ++i) {
    fabric->link(fabric->add_hca("H" + std::to_string(i)), node, i);
  }
  fabric->bring_up();
  if (!fabric->publish()) {
    return nullptr;
  }
  return fabric;
}

}  // namespace softhca
