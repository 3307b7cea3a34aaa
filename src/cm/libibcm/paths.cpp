// SPDX-License-Identifier: BSD-3-Clause
#include "cm/libibcm/paths.hpp"

#include <endian.h>

#include "verbs/gid.hpp"

namespace wireup::cm::ibcm {
namespace {

constexpr unsigned kMaxCode = 63;

}  // namespace

Result<mad::PathRecord> read_path(const ibv_sa_path_rec& path) {
  const auto flow_label = FlowLabel::make(be32toh(path.flow_label));
  const auto sl = Sl::make(path.sl);
  if (!flow_label || !sl || path.mtu > kMaxCode || path.rate > kMaxCode ||
      path.packet_life_time > kMaxCode) {
    return fail(Error::make(Errc::InvalidArgument,
                            "path to LID %u: flow label 0x%x, SL %u, MTU code %u, rate code %u or "
                            "packet lifetime %u is wider than its field",
                            be16toh(path.dlid), be32toh(path.flow_label), path.sl, path.mtu,
                            path.rate, path.packet_life_time));
  }
  mad::PathRecord record;
  record.dgid = verbs::to_gid(path.dgid);
  record.sgid = verbs::to_gid(path.sgid);
  record.dlid = Lid(be16toh(path.dlid));
  record.slid = Lid(be16toh(path.slid));
  record.raw_traffic = path.raw_traffic != 0;
  record.flow_label = *flow_label;
  record.hop_limit = path.hop_limit;
  record.traffic_class = path.traffic_class;
  record.reversible = path.reversible != 0;
  record.pkey = PKey(be16toh(path.pkey));
  record.sl = *sl;
  record.mtu_selector = mad::Selector::Exactly;
  record.mtu = path.mtu;
  record.rate_selector = mad::Selector::Exactly;
  record.rate = path.rate;
  record.packet_lifetime_selector = mad::Selector::Exactly;
  record.packet_lifetime = path.packet_life_time;
  record.preference = path.preference;
  return record;
}

ibv_sa_path_rec write_path(const mad::PathRecord& record) noexcept {
  ibv_sa_path_rec path{};
  path.dgid = verbs::raw_gid(record.dgid);
  path.sgid = verbs::raw_gid(record.sgid);
  path.dlid = htobe16(record.dlid.value());
  path.slid = htobe16(record.slid.value());
  path.raw_traffic = record.raw_traffic ? 1 : 0;
  path.flow_label = htobe32(record.flow_label.value());
  path.hop_limit = record.hop_limit;
  path.traffic_class = record.traffic_class;
  path.reversible = record.reversible ? 1 : 0;
  path.numb_path = 1;
  path.pkey = htobe16(record.pkey.value());
  path.sl = record.sl.value();
  path.mtu_selector = static_cast<std::uint8_t>(record.mtu_selector);
  path.mtu = record.mtu;
  path.rate_selector = static_cast<std::uint8_t>(record.rate_selector);
  path.rate = record.rate;
  path.packet_life_time_selector = static_cast<std::uint8_t>(record.packet_lifetime_selector);
  path.packet_life_time = record.packet_lifetime;
  path.preference = record.preference;
  return path;
}

mad::PathRecord path_from_peer(const mad::ReqPath& path, PKey pkey, std::uint8_t mtu) noexcept {
  mad::PathRecord record;
  record.dgid = path.local_gid;
  record.sgid = path.remote_gid;
  record.dlid = path.local_lid;
  record.slid = path.remote_lid;
  record.flow_label = path.flow_label;
  record.hop_limit = path.hop_limit;
  record.traffic_class = path.traffic_class;
  record.reversible = true;
  record.pkey = pkey;
  record.sl = path.sl;
  record.mtu_selector = mad::Selector::Exactly;
  record.mtu = mtu;
  record.rate_selector = mad::Selector::Exactly;
  record.rate = path.packet_rate.value();
  // The ACK timeout is at least twice the lifetime.
  const std::uint8_t timeout = path.local_ack_timeout.exponent();
  record.packet_lifetime_selector = mad::Selector::Exactly;
  record.packet_lifetime = timeout > 0 ? static_cast<std::uint8_t>(timeout - 1) : timeout;
  return record;
}

Address address_of(const mad::PathRecord& path, std::uint16_t pkey_index,
                   std::uint8_t path_bits) noexcept {
  Address address;
  address.dlid = path.dlid;
  address.pkey_index = pkey_index;
  address.qpn = Qpn(mad::kGsiQpn);
  address.sl = path.sl;
  address.path_bits = path_bits;
  address.has_grh = path.hop_limit > 1;
  address.dgid = path.dgid;
  address.flow_label = path.flow_label;
  address.hop_limit = path.hop_limit;
  address.traffic_class = path.traffic_class;
  return address;
}

}  // namespace wireup::cm::ibcm
