// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs, shared receive queues, multicast membership.
#include <linux/capability.h>

#include <algorithm>
#include <cerrno>

#include "softhca/hca/capability.hpp"
#include "softhca/hca/multicast.hpp"
#include "softhca/verbs/objects.hpp"

namespace softhca::verbs {
namespace {

ibv_qp* create(ibv_pd* pd, ibv_qp_init_attr& attr, bool block_self_multicast) {
  if (const int error = of(pd->context)->injected(hca::Call::CreateQp)) {
    return fail(error);
  }
  Context& ctx = *of(pd->context);
  if (attr.send_cq == nullptr || attr.recv_cq == nullptr) {
    return fail(EINVAL);
  }
  hca::QpInit init;
  init.hca = ctx.device->hca_index;
  init.ports = ctx.info().ports;
  init.pd = of(pd)->number;
  init.type = attr.qp_type;
  init.send_cq = of(attr.send_cq)->queue->slot();
  init.recv_cq = of(attr.recv_cq)->queue->slot();
  init.srq = attr.srq != nullptr ? of(attr.srq)->queue->slot() : hca::kNone;
  init.send_consumer = &of(attr.send_cq)->queue->consumer();
  init.recv_consumer = &of(attr.recv_cq)->queue->consumer();
  init.cap = attr.cap;
  if (attr.srq != nullptr) {
    init.cap.max_recv_wr = 0;
    init.cap.max_recv_sge = 0;
  }
  init.signal_all = attr.sq_sig_all != 0;
  init.block_self_multicast = block_self_multicast;
  init.async = ctx.async_name();
  int error = 0;
  auto queue = hca::Qp::create(*ctx.runtime, init, error);
  if (!queue) {
    return fail(error);
  }
  auto* qp = new Qp{};
  ibv_qp& base = qp->base.qp_base;
  base.context = pd->context;
  qp->context = use(ctx);
  base.qp_context = attr.qp_context;
  base.pd = pd;
  base.send_cq = attr.send_cq;
  base.recv_cq = attr.recv_cq;
  base.srq = attr.srq;
  base.handle = queue->slot();
  base.qp_num = queue->number();
  base.state = IBV_QPS_RESET;
  base.qp_type = attr.qp_type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  qp->signal_all = init.signal_all;
  qp->queue = std::move(queue);
  attr.cap = init.cap;
  ++of(pd)->users;
  ++of(attr.send_cq)->users;
  ++of(attr.recv_cq)->users;
  if (attr.srq != nullptr) {
    ++of(attr.srq)->users;
  }
  qp_table().put(qp->queue->slot(), qp);
  return &base;
}

Gid to_gid(const ibv_gid& gid) {
  Gid bytes{};
  std::copy(std::begin(gid.raw), std::end(gid.raw), bytes.begin());
  return bytes;
}

}  // namespace

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  if (const int error = of(qp->context)->injected(hca::Call::PostSend)) {
    *bad = wr;
    return error;
  }
  return of(qp)->queue->post_send(wr, bad);
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  if (const int error = of(qp->context)->injected(hca::Call::PostRecv)) {
    *bad = wr;
    return error;
  }
  return of(qp)->queue->post_recv(wr, bad);
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  return of(srq)->queue->post(wr, bad);
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init) {
  constexpr std::uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const auto given = [init](std::uint32_t bit) { return (init->comp_mask & bit) != 0; };
  const std::uint32_t flags = given(IBV_QP_INIT_ATTR_CREATE_FLAGS) ? init->create_flags : 0;
  if ((init->comp_mask & ~kKnown) != 0 ||
      (flags & ~static_cast<std::uint32_t>(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)) != 0) {
    return fail(EOPNOTSUPP);
  }
  if (!given(IBV_QP_INIT_ATTR_PD) || init->pd == nullptr || init->pd->context != context) {
    return fail(EINVAL);
  }
  const bool operations = given(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
  const int error = operations ? SendBuilder::check(init->qp_type, init->send_ops_flags) : 0;
  if (error != 0) {
    return fail(error);
  }
  ibv_qp_init_attr attr{};
  attr.qp_context = init->qp_context;
  attr.send_cq = init->send_cq;
  attr.recv_cq = init->recv_cq;
  attr.srq = init->srq;
  attr.cap = init->cap;
  attr.qp_type = init->qp_type;
  attr.sq_sig_all = init->sq_sig_all;
  ibv_qp* qp = create(init->pd, attr, (flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0);
  if (qp != nullptr) {
    init->cap = attr.cap;
  }
  if (qp != nullptr && operations) {
    of(qp)->builder = std::make_unique<SendBuilder>();
    SendBuilder::install(of(qp)->base, init->send_ops_flags);
  }
  return qp;
}

}  // namespace softhca::verbs

using namespace softhca;
using namespace softhca::verbs;

SOFTHCA_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  return create(pd, *attr, false);
}

SOFTHCA_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  // Only a QP that was created with send operations has them.
  return of(qp)->builder != nullptr ? &of(qp)->base : fail(EOPNOTSUPP);
}

SOFTHCA_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  const Context& ctx = *of(qp->context);
  const bool moves = (mask & IBV_QP_STATE) != 0;
  if (const int fault =
          ctx.injected(hca::Call::ModifyQp,
                       moves ? static_cast<std::uint32_t>(attr->qp_state) : hca::kAnyState)) {
    return fault;
  }
  // As kernels do since 2023: a Q_Key that only privileged peers may send to is theirs to give.
  constexpr std::uint32_t kPrivileged = 0x80000000;
  if ((mask & IBV_QP_QKEY) != 0 && (attr->qkey & kPrivileged) != 0 &&
      ctx.runtime->faults().qkeys_restricted() && !hca::has_capability(CAP_NET_RAW)) {
    return EPERM;
  }
  const int error = of(qp)->queue->modify(*attr, mask);
  if (error == 0 && (mask & IBV_QP_STATE) != 0) {
    qp->state = attr->qp_state;
  }
  return error;
}

SOFTHCA_EXPORT int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  static_cast<void>(mask);  // all of it comes at no cost
  Qp& object = *of(qp);
  *attr = {};
  object.queue->query(*attr);
  *init = {};
  init->qp_context = qp->qp_context;
  init->send_cq = qp->send_cq;
  init->recv_cq = qp->recv_cq;
  init->srq = qp->srq;
  init->qp_type = qp->qp_type;
  init->cap = attr->cap;
  init->sq_sig_all = object.signal_all ? 1 : 0;
  qp->state = attr->qp_state;
  return 0;
}

SOFTHCA_EXPORT int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode,
                                              std::uint32_t flags) {
  static_cast<void>(qp);
  static_cast<void>(opcode);
  static_cast<void>(flags);
  return 0;
}

SOFTHCA_EXPORT int ibv_destroy_qp(ibv_qp* base) {
  Qp& qp = *of(base);
  const std::uint32_t slot = qp.queue->slot();
  const std::uint32_t generation = qp.queue->generation();
  const bool had_events = qp.queue->had_events();
  qp_table().put(slot, nullptr);
  qp.queue.reset();
  if (had_events) {
    of(base->context)->async->drop_events_of(hca::EventTarget::Qp, slot, generation);
  }
  pthread_mutex_lock(&base->mutex);
  while (base->events_completed != qp.events_reported) {
    pthread_cond_wait(&base->cond, &base->mutex);
  }
  pthread_mutex_unlock(&base->mutex);
  --of(base->pd)->users;
  --of(base->send_cq)->users;
  --of(base->recv_cq)->users;
  if (base->srq != nullptr) {
    --of(base->srq)->users;
  }
  delete &qp;
  return 0;
}

SOFTHCA_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (const int error = of(qp->context)->injected(hca::Call::AttachMcast)) {
    return error;
  }
  if (qp->qp_type != IBV_QPT_UD || gid->raw[0] != 0xFF || lid < 0xC000 || lid == 0xFFFF) {
    return EINVAL;
  }
  Qp& object = *of(qp);
  hca::Runtime& runtime = *of(qp->context)->runtime;
  object.queue->set_attached();
  return hca::attach_multicast(runtime.registry(), runtime.token(), object.queue->slot(),
                               to_gid(*gid), lid);
}

SOFTHCA_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  hca::Runtime& runtime = *of(qp->context)->runtime;
  return hca::detach_multicast(runtime.registry(), runtime.token(), of(qp)->queue->slot(),
                               to_gid(*gid), lid);
}

SOFTHCA_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  if (const int error = of(pd->context)->injected(hca::Call::CreateSrq)) {
    return fail(error);
  }
  Context& ctx = *of(pd->context);
  int error = 0;
  auto queue = hca::SharedReceiveQueue::create(*ctx.runtime, of(pd)->number, init->attr,
                                               ctx.async_name(), error);
  if (!queue) {
    return fail(error);
  }
  auto* srq = new Srq{};
  srq->base.context = pd->context;
  srq->context = use(ctx);
  srq->base.srq_context = init->srq_context;
  srq->base.pd = pd;
  srq->base.handle = queue->slot();
  pthread_mutex_init(&srq->base.mutex, nullptr);
  pthread_cond_init(&srq->base.cond, nullptr);
  srq->queue = std::move(queue);
  ++of(pd)->users;
  srq_table().put(srq->queue->slot(), srq);
  return &srq->base;
}

SOFTHCA_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  return of(srq)->queue->modify(*attr, mask);
}

SOFTHCA_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  of(srq)->queue->query(*attr);
  return 0;
}

SOFTHCA_EXPORT int ibv_destroy_srq(ibv_srq* base) {
  Srq& srq = *of(base);
  if (srq.users.load() != 0) {
    return EBUSY;
  }
  const std::uint32_t slot = srq.queue->slot();
  const std::uint32_t generation = srq.queue->generation();
  srq_table().put(slot, nullptr);
  srq.queue.reset();
  of(base->context)->async->drop_events_of(hca::EventTarget::Srq, slot, generation);
  pthread_mutex_lock(&base->mutex);
  while (base->events_completed != srq.events_reported) {
    pthread_cond_wait(&base->cond, &base->mutex);
  }
  pthread_mutex_unlock(&base->mutex);
  --of(base->pd)->users;
  delete &srq;
  return 0;
}
