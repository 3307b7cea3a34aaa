// SPDX-License-Identifier: BSD-3-Clause
// Protection domains, thread domains and parent domains.
#include <cerrno>

#include "softhca/verbs/objects.hpp"

namespace softhca::verbs {

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* init) {
  if (init->comp_mask != 0) {
    return fail(EINVAL);
  }
  auto* td = new Td{};
  td->base.context = context;
  return &td->base;
}

int dealloc_td(ibv_td* td) {
  if (of(td)->users.load() != 0) {
    return EBUSY;
  }
  delete of(td);
  return 0;
}

/// A parent domain is its protection domain under another name. Its allocators would be asked for
/// the memory of queues; ours lies in the fabric's shared file, so they are never called.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* init) {
  constexpr std::uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  const bool allocators = (init->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (init->pd == nullptr || init->pd->context != context || (init->comp_mask & ~kKnown) != 0 ||
      (allocators && (init->alloc == nullptr || init->free == nullptr))) {
    return fail(EINVAL);
  }
  auto* domain = new Pd{};
  domain->number = of(init->pd)->number;
  domain->parent = of(init->pd);
  domain->td = init->td != nullptr ? of(init->td) : nullptr;
  domain->base.context = context;
  domain->base.handle = init->pd->handle;
  ++domain->parent->users;
  if (domain->td != nullptr) {
    ++domain->td->users;
  }
  return &domain->base;
}

}  // namespace softhca::verbs

using namespace softhca;
using namespace softhca::verbs;

SOFTHCA_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (const int error = of(context)->injected(hca::Call::AllocPd)) {
    return fail(error);
  }
  auto* pd = new Pd{};
  // Numbers are unique within the process, over all its contexts.
  static std::atomic<std::uint32_t> next{1};
  pd->number = next.fetch_add(1);
  pd->base.context = context;
  pd->base.handle = pd->number;
  return &pd->base;
}

SOFTHCA_EXPORT int ibv_dealloc_pd(ibv_pd* base) {
  Pd* pd = of(base);
  if (pd->users.load() != 0) {
    return EBUSY;
  }
  if (pd->parent != nullptr) {
    --pd->parent->users;
  }
  if (pd->td != nullptr) {
    --pd->td->users;
  }
  delete pd;
  return 0;
}
