// SPDX-License-Identifier: BSD-3-Clause
// Subnet management packets: directed-route requests and the attributes a fabric walk reads (IBTA
// vol 1, 14.2.1 and 14.2.5).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "softhca/fabric/fabric_image.hpp"
#include "softhca/mad/mad.hpp"

namespace softhca {

inline constexpr std::size_t kSmpDataOffset = 64;
inline constexpr std::size_t kSmpDataSize = 64;
inline constexpr std::size_t kMaxHops = 62;  // path bytes 1..62; byte 0 is not used

inline constexpr std::uint16_t kAttrNodeDescription = 0x0010;
inline constexpr std::uint16_t kAttrNodeInfo = 0x0011;
inline constexpr std::uint16_t kAttrSwitchInfo = 0x0012;
inline constexpr std::uint16_t kAttrGuidInfo = 0x0014;
inline constexpr std::uint16_t kAttrPortInfo = 0x0015;
inline constexpr std::uint16_t kAttrPkeyTable = 0x0016;
inline constexpr std::uint16_t kAttrLinearForwarding = 0x0019;
inline constexpr std::uint16_t kAttrMulticastForwarding = 0x001B;

inline constexpr std::uint32_t kLidsPerLftBlock = 64;
inline constexpr std::uint32_t kMlidsPerMftBlock = 32;
inline constexpr std::uint32_t kPortsPerMftPosition = 16;
inline constexpr std::uint32_t kPkeysPerBlock = 32;
inline constexpr std::uint32_t kGuidsPerBlock = 8;

using SmpData = std::array<std::uint8_t, kSmpDataSize>;

/// Ports to leave by, hop for hop, from the node that sends. Empty: the sending node itself.
using DirectedPath = std::vector<std::uint8_t>;

/// SubnGet of an attribute by directed route. `path` has at most kMaxHops hops.
Mad make_directed_get(const DirectedPath& path, std::uint16_t attr_id, std::uint32_t attr_mod,
                      std::uint64_t tid);

/// The same as SubnSet, with the attribute's new content.
Mad make_directed_set(const DirectedPath& path, std::uint16_t attr_id, std::uint32_t attr_mod,
                      std::uint64_t tid, const SmpData& data);

enum class NodeType : std::uint8_t { Ca = 1, Switch = 2, Router = 3 };

/// PortInfo CapabilityMask: the port takes note of the ClientReregister bit.
inline constexpr std::uint32_t kCapClientReregister = 1U << 25;

struct NodeInfo {
  std::uint8_t node_type = 0;  // a NodeType, or what an unknown node says
  std::uint8_t num_ports = 0;
  std::uint64_t system_image_guid = 0;
  std::uint64_t node_guid = 0;
  std::uint64_t port_guid = 0;
  std::uint16_t partition_cap = 0;
  std::uint16_t device_id = 0;
  std::uint32_t revision = 0;
  std::uint8_t local_port = 0;
  std::uint32_t vendor_id = 0;

  bool operator==(const NodeInfo&) const = default;
};

struct PortInfo {
  std::uint64_t m_key = 0;
  std::uint64_t gid_prefix = 0;
  std::uint16_t lid = 0;
  std::uint16_t sm_lid = 0;
  std::uint32_t cap_mask = 0;
  std::uint8_t local_port = 0;
  std::uint8_t width_active = 0;
  std::uint8_t state = 0;
  std::uint8_t phys_state = 0;
  std::uint8_t lmc = 0;
  std::uint8_t speed_active = 0;
  std::uint8_t speed_ext_active = 0;
  std::uint8_t neighbor_mtu = 0;
  std::uint8_t sm_sl = 0;
  std::uint8_t vl_cap = 0;
  std::uint8_t init_type_reply = 0;
  std::uint8_t mtu_cap = 0;
  std::uint16_t pkey_violations = 0;
  std::uint16_t qkey_violations = 0;
  std::uint8_t guid_cap = 0;
  std::uint8_t client_reregister = 0;
  std::uint8_t subnet_timeout = 0;
  std::uint16_t cap_mask2 = 0;

  bool operator==(const PortInfo&) const = default;
};

struct SwitchInfo {
  std::uint16_t linear_cap = 0;
  std::uint16_t multicast_cap = 0;
  std::uint16_t linear_top = 0;
  bool port_state_change = false;
  std::uint16_t partition_enforcement_cap = 0;
  std::uint16_t multicast_top = 0;

  bool operator==(const SwitchInfo&) const = default;
};

NodeInfo get_node_info(std::span<const std::uint8_t, kSmpDataSize> data);
PortInfo get_port_info(std::span<const std::uint8_t, kSmpDataSize> data);
SwitchInfo get_switch_info(std::span<const std::uint8_t, kSmpDataSize> data);

/// Adds one MulticastForwardingTable block to `mft`: 32 MLIDs from 32 * block on, 16 ports from
/// 16 * position on. MLIDs and ports that do not fit are left out.
void put_mft_block(std::vector<PortMask>& mft, std::uint32_t block, std::uint32_t position,
                   std::span<const std::uint8_t, kSmpDataSize> data);

}  // namespace softhca
