// SPDX-License-Identifier: BSD-3-Clause
#include "conn/driver/card_path.hpp"

#include <algorithm>

#include "mad/rate.hpp"

namespace wireup::conn {

bool may_be_helped_by_card(const Error& error) noexcept {
  return error.is(Errc::NoPermission) || error.is(Errc::PathUnresolved) ||
         error.is(Errc::Timeout) || error.is(Errc::NotFound) || error.is(Errc::NoSubnetManager);
}

Result<mad::PathRecord> path_from_card(const verbs::PortInfo& own, PKey pkey,
                                       const pmix::CardPort& peer) {
  const auto refuse = [&](const char* why) {
    return fail(Error::make(Errc::PathUnresolved, "no path from %s to GID %s by its card: %s",
                            own.name().data(), to_text(peer.gid).data(), why));
  };
  if (own.gid.prefix() != peer.gid.prefix()) {
    return refuse("it is in another subnet, and a card names no router");
  }
  if (!is_unicast(own.lid) || !is_unicast(peer.lid)) {
    return refuse("one of the two has no LID");
  }
  if (!pkey.matches(peer.pkey)) {
    return refuse("the two share no partition");
  }
  mad::PathRecord record;
  record.sgid = own.gid;
  record.dgid = peer.gid;
  record.slid = own.lid;
  record.dlid = peer.lid;
  record.reversible = true;
  record.numb_path = 1;
  record.pkey = pkey;
  record.mtu_selector = mad::Selector::Exactly;
  record.mtu = std::min(own.active_mtu, peer.mtu);
  record.rate_selector = mad::Selector::Exactly;
  record.rate = mad::slower_rate(own.active_rate, peer.rate);
  record.packet_lifetime_selector = mad::Selector::Exactly;
  record.packet_lifetime = own.subnet_timeout;
  return record;
}

}  // namespace wireup::conn
