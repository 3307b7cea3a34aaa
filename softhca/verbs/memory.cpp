// SPDX-License-Identifier: BSD-3-Clause
// Memory regions.
#include <cerrno>

#include "softhca/verbs/objects.hpp"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using namespace softhca;
using namespace softhca::verbs;

namespace {

hca::RegionSpec spec_of(Pd& pd, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access) {
  hca::RegionSpec spec;
  spec.pd = pd.number;
  spec.address = reinterpret_cast<std::uint64_t>(address);
  spec.length = length;
  spec.iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  spec.access = access;
  return spec;
}

void describe(Mr& mr, ibv_pd* pd, void* address, std::size_t length) {
  mr.base.context = pd->context;
  mr.base.pd = pd;
  mr.base.addr = address;
  mr.base.length = length;
  mr.base.handle = mr.region->key() >> 8;
  mr.base.lkey = mr.region->key();
  mr.base.rkey = mr.region->key();
}

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access) {
  if (const int error = of(pd->context)->injected(hca::Call::RegMr)) {
    return fail(error);
  }
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) {
    return fail(EOPNOTSUPP);
  }
  int error = 0;
  auto region = hca::MemoryRegion::create(*of(pd->context)->runtime,
                                          spec_of(*of(pd), address, length, iova, access), error);
  if (!region) {
    return fail(error);
  }
  auto* mr = new Mr{};
  mr->region = std::move(region);
  describe(*mr, pd, address, length);
  ++of(pd)->users;
  return &mr->base;
}

}  // namespace

SOFTHCA_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return register_memory(pd, address, length, reinterpret_cast<std::uint64_t>(address),
                         static_cast<unsigned>(access));
}

SOFTHCA_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length,
                                       std::uint64_t iova, int access) {
  return register_memory(pd, address, length, iova, static_cast<unsigned>(access));
}

SOFTHCA_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length,
                                        std::uint64_t iova, unsigned int access) {
  return register_memory(pd, address, length, iova, access);
}

SOFTHCA_EXPORT int ibv_rereg_mr(ibv_mr* base, int flags, ibv_pd* pd, void* address,
                                std::size_t length, int access) {
  Mr& mr = *of(base);
  if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 || flags == 0 ||
      ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd == nullptr) ||
      ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (address == nullptr || length == 0))) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  hca::RegionSpec spec = mr.region->spec();
  ibv_pd* new_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : base->pd;
  spec.pd = of(new_pd)->number;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    spec.address = reinterpret_cast<std::uint64_t>(address);
    spec.length = length;
    spec.iova = spec.address;
  }
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
    spec.access = static_cast<unsigned>(access);
  }
  const int error = mr.region->change(spec);
  if (error != 0) {
    errno = error;
    return IBV_REREG_MR_ERR_CMD;
  }
  if (new_pd != base->pd) {
    --of(base->pd)->users;
    ++of(new_pd)->users;
  }
  describe(mr, new_pd, reinterpret_cast<void*>(spec.address), spec.length);
  return 0;
}

SOFTHCA_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  --of(mr->pd)->users;
  delete of(mr);
  return 0;
}
