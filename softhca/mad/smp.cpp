// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/mad/smp.hpp"

#include <algorithm>

#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

constexpr std::size_t kInitialPathOffset = 128;
constexpr std::uint16_t kPermissiveLid = 0xFFFF;

std::uint8_t high_bits(std::uint8_t byte, int shift) {
  return static_cast<std::uint8_t>(byte >> shift);
}

std::uint8_t low_bits(std::uint8_t byte, unsigned mask) {
  return static_cast<std::uint8_t>(byte & mask);
}

}  // namespace

Mad make_directed_get(const DirectedPath& path, std::uint16_t attr_id, std::uint32_t attr_mod,
                      std::uint64_t tid) {
  Mad mad{};
  MadHeader header;
  header.mgmt_class = kClassSmDirect;
  header.method = kMethodGet;
  const std::size_t hops = std::min(path.size(), kMaxHops);
  header.class_specific = static_cast<std::uint16_t>(hops);  // hop pointer 0, hop count
  header.tid = tid;
  header.attr_id = attr_id;
  header.attr_mod = attr_mod;
  put_mad_header(mad, header);
  put16(mad, 32, kPermissiveLid);  // DrSLID
  put16(mad, 34, kPermissiveLid);  // DrDLID
  std::copy_n(path.begin(), hops, mad.begin() + kInitialPathOffset + 1);
  return mad;
}

Mad make_directed_set(const DirectedPath& path, std::uint16_t attr_id, std::uint32_t attr_mod,
                      std::uint64_t tid, const SmpData& data) {
  Mad mad = make_directed_get(path, attr_id, attr_mod, tid);
  mad[3] = kMethodSet;
  std::copy(data.begin(), data.end(), mad.begin() + kSmpDataOffset);
  return mad;
}

NodeInfo get_node_info(std::span<const std::uint8_t, kSmpDataSize> data) {
  NodeInfo info;
  info.node_type = get8(data, 2);
  info.num_ports = get8(data, 3);
  info.system_image_guid = get64(data, 4);
  info.node_guid = get64(data, 12);
  info.port_guid = get64(data, 20);
  info.partition_cap = get16(data, 28);
  info.device_id = get16(data, 30);
  info.revision = get32(data, 32);
  info.local_port = get8(data, 36);
  info.vendor_id = get32(data, 36) & 0xFFFFFF;
  return info;
}

PortInfo get_port_info(std::span<const std::uint8_t, kSmpDataSize> data) {
  PortInfo info;
  info.m_key = get64(data, 0);
  info.gid_prefix = get64(data, 8);
  info.lid = get16(data, 16);
  info.sm_lid = get16(data, 18);
  info.cap_mask = get32(data, 20);
  info.local_port = get8(data, 28);
  info.width_active = get8(data, 31);
  info.state = low_bits(data[32], 0x0F);
  info.phys_state = high_bits(data[33], 4);
  info.lmc = low_bits(data[34], 0x07);
  info.speed_active = high_bits(data[35], 4);
  info.neighbor_mtu = high_bits(data[36], 4);
  info.sm_sl = low_bits(data[36], 0x0F);
  info.vl_cap = high_bits(data[37], 4);
  info.init_type_reply = high_bits(data[41], 4);
  info.mtu_cap = low_bits(data[41], 0x0F);
  info.pkey_violations = get16(data, 46);
  info.qkey_violations = get16(data, 48);
  info.guid_cap = get8(data, 50);
  info.client_reregister = high_bits(data[51], 7);
  info.subnet_timeout = low_bits(data[51], 0x1F);
  info.cap_mask2 = get16(data, 60);
  info.speed_ext_active = high_bits(data[62], 4);
  return info;
}

SwitchInfo get_switch_info(std::span<const std::uint8_t, kSmpDataSize> data) {
  SwitchInfo info;
  info.linear_cap = get16(data, 0);
  info.multicast_cap = get16(data, 4);
  info.linear_top = get16(data, 6);
  info.port_state_change = (data[11] & 0x04) != 0;
  info.partition_enforcement_cap = get16(data, 14);
  info.multicast_top = get16(data, 18);
  return info;
}

void put_mft_block(std::vector<PortMask>& mft, std::uint32_t block, std::uint32_t position,
                   std::span<const std::uint8_t, kSmpDataSize> data) {
  const std::uint32_t first_port = position * kPortsPerMftPosition;
  if (first_port >= kMaxPortsPerSwitch) {
    return;
  }
  const std::uint32_t shift = first_port % 64;
  const std::uint64_t window = std::uint64_t{0xFFFF} << shift;
  for (std::uint32_t i = 0; i < kMlidsPerMftBlock; ++i) {
    const std::uint32_t offset = block * kMlidsPerMftBlock + i;
    const std::uint64_t bits = get16(data, std::size_t{i} * 2);
    if (offset >= kMftEntries || (bits == 0 && offset >= mft.size())) {
      continue;
    }
    if (offset >= mft.size()) {
      mft.resize(offset + 1);
    }
    std::uint64_t& word = mft[offset][first_port / 64];
    word = (word & ~window) | bits << shift;
  }
}

}  // namespace softhca
