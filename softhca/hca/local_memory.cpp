// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/local_memory.hpp"

#include "softhca/hca/mr_table.hpp"
#include "softhca/hca/runtime.hpp"

namespace softhca::hca {

std::optional<SegmentList> local_list(const Sender& sender, const SendRequest& request,
                                      std::uint32_t access) {
  SegmentList list;
  for (const ibv_sge& sge : request.sges) {
    std::optional<std::uint64_t> address = sge.addr;
    if (!request.inline_data() && sge.length != 0) {
      address = translate(sender.runtime.registry(), sge.lkey, sender.runtime.token(),
                          sender.record.pd, sge.addr, sge.length, access);
    }
    if (!address || !list.add(*address, sge.length)) {
      return std::nullopt;
    }
  }
  return list;
}

}  // namespace softhca::hca
