// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <utility>

#include "mad/path_record.hpp"

namespace wireup::tool {

/// From LID 2 to LID 4, SL 3.
inline mad::PathRecord sample_record() {
  mad::PathRecord record;
  record.sgid = Gid::make(0xFE80000000000000, Guid(0x5B00000000000101));
  record.dgid = Gid::make(0xFE80000000000000, Guid(0x5B00000000000201));
  record.slid = Lid(2);
  record.dlid = Lid(4);
  record.pkey = PKey(0xFFFF);
  record.sl = Sl(3);
  record.mtu_selector = mad::Selector::Exactly;
  record.mtu = 4;
  record.rate_selector = mad::Selector::Exactly;
  record.rate = 7;
  record.packet_lifetime_selector = mad::Selector::Exactly;
  record.packet_lifetime = 18;
  record.reversible = true;
  return record;
}

/// The way back that a record promises.
inline mad::PathRecord way_back(mad::PathRecord record) {
  std::swap(record.sgid, record.dgid);
  std::swap(record.slid, record.dlid);
  return record;
}

}  // namespace wireup::tool
