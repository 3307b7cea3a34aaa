// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/port_identity.hpp"

namespace wireup::acm {
namespace {

/// Lifetime of a path within the port, 4.096 us, as OpenSM says it too.
constexpr std::uint8_t kLocalLifetime = 0;

}  // namespace

bool has_lid(const PortIdentity& port, Lid lid) noexcept {
  return !port.lid.is_zero() && lid.value() >> port.lmc == port.lid.value() >> port.lmc;
}

mad::PathRecord local_path(const PortIdentity& port) noexcept {
  mad::PathRecord record;
  record.dgid = port.gid;
  record.sgid = port.gid;
  record.dlid = port.lid;
  record.slid = port.lid;
  record.reversible = true;
  record.numb_path = 1;
  record.pkey = port.pkey;
  record.mtu_selector = mad::Selector::Exactly;
  record.mtu = port.mtu;
  record.rate_selector = mad::Selector::Exactly;
  record.rate = port.rate;
  record.packet_lifetime_selector = mad::Selector::Exactly;
  record.packet_lifetime = kLocalLifetime;
  return record;
}

}  // namespace wireup::acm
