// SPDX-License-Identifier: BSD-3-Clause
#include "rdmacm/route_record.hpp"

#include <arpa/inet.h>

#include <algorithm>

namespace wireup::rdmacm {
namespace {

constexpr std::uint8_t kMaxSelector = 3;
/// MTU, rate and packet lifetime have 6 bits.
constexpr std::uint8_t kMaxCode = 63;

Gid to_gid(const ibv_gid& gid) noexcept {
  Gid::Bytes bytes{};
  std::copy_n(std::begin(gid.raw), Gid::kSize, bytes.begin());
  return Gid(bytes);
}

bool fits(std::uint8_t selector, std::uint8_t code) noexcept {
  return selector <= kMaxSelector && code <= kMaxCode;
}

}  // namespace

Result<mad::PathRecord> to_record(const ibv_sa_path_rec& path) {
  const auto sl = Sl::make(path.sl);
  const auto flow_label = FlowLabel::make(ntohl(path.flow_label));
  if (!sl.has_value() || !flow_label.has_value() || !fits(path.mtu_selector, path.mtu) ||
      !fits(path.rate_selector, path.rate) ||
      !fits(path.packet_life_time_selector, path.packet_life_time)) {
    return fail(Error::make(Errc::Malformed,
                            "the kernel's path has SL %u, MTU code %u, rate code %u, lifetime %u",
                            path.sl, path.mtu, path.rate, path.packet_life_time));
  }
  mad::PathRecord record;
  record.dgid = to_gid(path.dgid);
  record.sgid = to_gid(path.sgid);
  record.dlid = Lid(ntohs(path.dlid));
  record.slid = Lid(ntohs(path.slid));
  record.raw_traffic = path.raw_traffic != 0;
  record.flow_label = *flow_label;
  record.hop_limit = path.hop_limit;
  record.traffic_class = path.traffic_class;
  record.reversible = path.reversible != 0;
  record.numb_path = path.numb_path & 0x7FU;
  record.pkey = PKey(ntohs(path.pkey));
  record.sl = *sl;
  record.mtu_selector = static_cast<mad::Selector>(path.mtu_selector);
  record.mtu = path.mtu;
  record.rate_selector = static_cast<mad::Selector>(path.rate_selector);
  record.rate = path.rate;
  record.packet_lifetime_selector = static_cast<mad::Selector>(path.packet_life_time_selector);
  record.packet_lifetime = path.packet_life_time;
  record.preference = path.preference;
  return record;
}

}  // namespace wireup::rdmacm
