// SPDX-License-Identifier: BSD-3-Clause
#include "conn/engine/rules.hpp"

#include "mad/rate.hpp"

namespace wireup::conn {

Result<> check_peer(const Config& config, const PeerId& peer, Instant deadline, Instant now,
                    const char* call) {
  if (peer.job != config.self.job) {
    return fail(Error::make(Errc::Unsupported,
                            "%s rank %u: it is of another PMIx namespace than this process", call,
                            peer.rank));
  }
  if (peer.rank >= config.job_size) {
    return fail(Error::make(Errc::InvalidArgument, "%s rank %u: the job has ranks 0 to %u", call,
                            peer.rank, config.job_size - 1));
  }
  if (deadline <= now) {
    return fail(Error::make(Errc::InvalidArgument, "%s rank %u: the deadline is not in the future",
                            call, peer.rank));
  }
  return {};
}

Result<> check_record(const Config& config, const mad::PathRecord& record) {
  const unsigned lids = 1U << config.lmc;
  const bool own_slid = record.slid >= config.lid &&
                        record.slid.value() - config.lid.value() < static_cast<int>(lids);
  if (record.dlid.is_zero() || !own_slid || record.sgid != config.gid ||
      !mad::mtu_bytes(record.mtu).has_value()) {
    return fail(Error::make(Errc::PathUnresolved,
                            "unusable path record from %s (LID %u, GID %s): SLID %u, SGID %s, DLID "
                            "%u, MTU code %u",
                            config.port_name.c_str(), config.lid.value(),
                            to_text(config.gid).data(), record.slid.value(),
                            to_text(record.sgid).data(), record.dlid.value(),
                            static_cast<unsigned>(record.mtu)));
  }
  return {};
}

cm::Address address_of(const mad::PathRecord& record, Lid base_lid, Qpn qpn) noexcept {
  cm::Address to;
  to.dlid = record.dlid;
  to.qpn = qpn;
  to.sl = record.sl;
  to.static_rate = record.rate;
  to.path_bits = static_cast<std::uint8_t>(record.slid.value() - base_lid.value());
  to.has_grh = record.hop_limit > 1;
  to.dgid = record.dgid;
  to.flow_label = record.flow_label;
  to.hop_limit = record.hop_limit;
  to.traffic_class = record.traffic_class;
  return to;
}

}  // namespace wireup::conn
