// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/sa_question.hpp"

namespace wireup::acm {

SaQuestion question_for_sa(const mad::PathRecord& given, const Gid& gid, PKey pkey,
                           bool exactly) noexcept {
  SaQuestion question{given, 0};
  mad::PathRecord& record = question.record;
  if (record.sgid == Gid{} && record.slid.is_zero()) {
    record.sgid = gid;
  }
  if (record.pkey.value() == 0) {
    record.pkey = pkey;
  }
  record.reversible = record.reversible || !exactly;
  record.numb_path = 1;
  const auto ask = [&question](bool is_given, std::uint64_t bits) {
    question.mask |= is_given ? bits : 0;
  };
  using namespace mad::path_mask;
  ask(record.service_id.value() != 0, kServiceId);
  ask(record.dgid != Gid{}, kDgid);
  ask(record.sgid != Gid{}, kSgid);
  ask(!record.dlid.is_zero(), kDlid);
  ask(!record.slid.is_zero(), kSlid);
  ask(record.traffic_class != 0, kTrafficClass);
  ask(record.reversible, kReversible);
  ask(true, kNumbPath | kPKey);
  ask(record.qos_class != 0, kQosClass);
  // An SL is a demand: of 0 nobody knows whether it was meant.
  ask(record.sl.value() != 0, kSl);
  ask(record.mtu != 0, kMtuSelector | kMtu);
  ask(record.rate != 0, kRateSelector | kRate);
  ask(exactly && record.packet_lifetime != 0, kPacketLifetimeSelector | kPacketLifetime);
  return question;
}

}  // namespace wireup::acm
