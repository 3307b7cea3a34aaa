// SPDX-License-Identifier: BSD-3-Clause
// Address handles.
#include <algorithm>
#include <cerrno>

#include "softhca/verbs/objects.hpp"

using namespace softhca;
using namespace softhca::verbs;

namespace {

/// Index of a GID in a port's table, -1 when it is not there.
int gid_index(const PortAttr& port, const ibv_gid& gid) {
  for (int i = 0; i < port.gid_count; ++i) {
    const Gid& entry = port.gids[static_cast<std::size_t>(i)];
    if (std::equal(entry.begin(), entry.end(), gid.raw)) {
      return i;
    }
  }
  return -1;
}

}  // namespace

SOFTHCA_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (const int error = of(pd->context)->injected(hca::Call::CreateAh)) {
    return fail(error);
  }
  Context& ctx = *of(pd->context);
  const PortIndex port = ctx.port(attr->port_num);
  if (port == kNoPort || attr->sl > 15 ||
      (attr->is_global != 0 && attr->grh.sgid_index >= ctx.runtime->ports().port(port).gid_count)) {
    return fail(EINVAL);
  }
  auto* ah = new hca::AddressHandle;
  ah->base.context = pd->context;
  ah->base.pd = pd;
  static std::atomic<std::uint32_t> next{1};
  ah->base.handle = next.fetch_add(1);
  ah->av.attr = *attr;
  ah->av.pd = of(pd)->number;
  ++of(pd)->users;
  return &ah->base;
}

SOFTHCA_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  --of(ah->pd)->users;
  delete of(ah);
  return 0;
}

SOFTHCA_EXPORT int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t number, ibv_wc* wc,
                                       ibv_grh* grh, ibv_ah_attr* attr) {
  const PortIndex port = of(context)->port(number);
  if (port == kNoPort) {
    errno = EINVAL;
    return -1;
  }
  *attr = {};
  attr->dlid = wc->slid;
  attr->sl = wc->sl;
  attr->src_path_bits = wc->dlid_path_bits;
  attr->port_num = number;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) {
    return 0;
  }
  attr->is_global = 1;
  attr->grh.dgid = grh->sgid;
  const int index = gid_index(of(context)->runtime->view().port(port), grh->dgid);
  if (index < 0) {
    errno = ENOENT;
    return -1;
  }
  attr->grh.sgid_index = static_cast<std::uint8_t>(index);
  constexpr std::uint32_t kFlowMask = 0xFFFFF;
  const std::uint32_t first = __builtin_bswap32(grh->version_tclass_flow);
  attr->grh.flow_label = first & kFlowMask;
  attr->grh.traffic_class = static_cast<std::uint8_t>(first >> 20);
  attr->grh.hop_limit = grh->hop_limit;
  return 0;
}

SOFTHCA_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh,
                                             std::uint8_t number) {
  ibv_ah_attr attr{};
  return ibv_init_ah_from_wc(pd->context, number, wc, grh, &attr) == 0 ? ibv_create_ah(pd, &attr)
                                                                       : nullptr;
}
