// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/told_path.hpp"

#include "acm/engine/port_identity.hpp"
#include "mad/rate.hpp"

namespace wireup::acm {

Result<> check_told_path(const mad::PathRecord& record, const verbs::PortInfo& port, PKey pkey,
                         const mad::AcmAddress& destination, std::optional<Sl> sl,
                         const char* who) {
  const auto refuse = [&](const char* why) {
    return fail(Error::make(Errc::PathUnresolved, "what %s said of %s is no path: %s", who,
                            to_text(destination).c_str(), why));
  };
  const auto dgid = destination.as_gid();
  const auto dlid = destination.as_lid();
  const PortIdentity own{port.gid, port.lid,        port.lmc,        pkey,
                         Qpn(),    port.active_mtu, port.active_rate};
  if (record.sgid != port.gid || !has_lid(own, record.slid)) {
    return refuse("it begins at another port");
  }
  if (record.pkey.partition() != pkey.partition()) {
    return refuse("it is of another partition");
  }
  if (record.dgid.is_zero() || record.dgid.is_multicast() || !is_unicast(record.dlid) ||
      (dgid.has_value() && record.dgid != *dgid) || (dlid.has_value() && record.dlid != *dlid)) {
    return refuse("it leads to another port");
  }
  if (!mad::mtu_bytes(record.mtu).has_value() || !mad::rate_mbps(record.rate).has_value()) {
    return refuse("its MTU or rate has no meaning");
  }
  if (sl.has_value() && record.sl != *sl) {
    return refuse("its SL is not the one asked for");
  }
  return {};
}

}  // namespace wireup::acm
