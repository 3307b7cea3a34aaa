// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and completion channels.
#include <cerrno>

#include "softhca/verbs/objects.hpp"

namespace softhca::verbs {

int poll_cq(ibv_cq* cq, int count, ibv_wc* wc) {
  return of(cq)->queue->poll(count, wc);
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  of(cq)->queue->arm(solicited_only != 0);
  return 0;
}

}  // namespace softhca::verbs

using namespace softhca;
using namespace softhca::verbs;

SOFTHCA_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (const int error = of(context)->injected(hca::Call::CreateChannel)) {
    return fail(error);
  }
  Context& ctx = *of(context);
  auto events = hca::EventChannel::create(ctx.runtime->registry(), ctx.runtime->channel_slots(),
                                          ctx.runtime->token(), hca::ChannelKind::Completion,
                                          ctx.device->hca_index);
  if (!events) {
    return nullptr;
  }
  auto* channel = new Channel{};
  channel->base.context = context;
  channel->context = use(ctx);
  channel->base.fd = events->fd();
  channel->base.refcnt = 0;
  channel->events = std::move(events);
  return &channel->base;
}

SOFTHCA_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  pthread_mutex_lock(&channel->context->mutex);
  const bool used = channel->refcnt != 0;
  pthread_mutex_unlock(&channel->context->mutex);
  if (used) {
    return EBUSY;
  }
  delete of(channel);
  return 0;
}

SOFTHCA_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context,
                                     ibv_comp_channel* channel, int comp_vector) {
  if (const int error = of(context)->injected(hca::Call::CreateCq)) {
    return fail(error);
  }
  Context& ctx = *of(context);
  if (cqe < 1 || cqe > ctx.lowered(hca::Limit::Cqes, hca::kMaxCqe) || comp_vector < 0 ||
      comp_vector >= context->num_comp_vectors) {
    return fail(EINVAL);
  }
  const hca::ChannelName events =
      channel != nullptr ? of(channel)->events->name() : hca::ChannelName{hca::kNone, 0};
  int error = 0;
  auto queue = hca::CompletionQueue::create(*ctx.runtime, static_cast<std::uint32_t>(cqe), events,
                                            ctx.async_name(), error);
  if (!queue) {
    return fail(error);
  }
  auto* cq = new Cq{};
  ibv_cq_ex& base = cq->base;
  base.context = context;
  cq->context = use(ctx);
  base.channel = channel;
  base.cq_context = cq_context;
  base.handle = queue->slot();
  base.cqe = static_cast<int>(queue->cqe());
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  if (channel != nullptr) {
    pthread_mutex_lock(&context->mutex);
    ++channel->refcnt;
    pthread_mutex_unlock(&context->mutex);
  }
  cq->queue = std::move(queue);
  cq_table().put(cq->queue->slot(), cq);
  return base_of(*cq);
}

SOFTHCA_EXPORT int ibv_resize_cq(ibv_cq* base, int cqe) {
  if (const int error = of(base->context)->injected(hca::Call::ResizeCq)) {
    return error;
  }
  if (cqe < 1 || cqe > of(base->context)->lowered(hca::Limit::Cqes, hca::kMaxCqe)) {
    return EINVAL;
  }
  Cq& cq = *of(base);
  const int error = cq.queue->resize(static_cast<std::uint32_t>(cqe));
  if (error == 0) {
    base->cqe = static_cast<int>(cq.queue->cqe());
  }
  return error;
}

SOFTHCA_EXPORT int ibv_destroy_cq(ibv_cq* base) {
  Cq& cq = *of(base);
  if (cq.users.load() != 0) {
    return EBUSY;
  }
  const std::uint32_t slot = cq.queue->slot();
  const std::uint32_t generation = cq.queue->generation();
  cq_table().put(slot, nullptr);
  cq.queue.reset();
  of(base->context)->async->drop_events_of(hca::EventTarget::Cq, slot, generation);
  if (base->channel != nullptr) {
    of(base->channel)->events->drop_events_of(hca::EventTarget::Cq, slot, generation);
    pthread_mutex_lock(&base->context->mutex);
    --base->channel->refcnt;
    pthread_mutex_unlock(&base->context->mutex);
  }
  // As in the kernel, the destruction waits for every event that was handed out.
  pthread_mutex_lock(&base->mutex);
  while (base->comp_events_completed != cq.comp_events_reported ||
         base->async_events_completed != cq.async_events_reported) {
    pthread_cond_wait(&base->cond, &base->mutex);
  }
  pthread_mutex_unlock(&base->mutex);
  delete &cq;
  return 0;
}

SOFTHCA_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  for (;;) {
    const auto event = of(channel)->events->read();
    if (!event) {
      return -1;
    }
    const bool found = cq_table().with(event->slot, [&](Cq& object) {
      if (object.queue->generation() != event->generation) {
        return false;
      }
      pthread_mutex_lock(&object.base.mutex);
      ++object.comp_events_reported;
      pthread_mutex_unlock(&object.base.mutex);
      *cq = base_of(object);
      *cq_context = object.base.cq_context;
      return true;
    });
    if (found) {
      return 0;
    }
  }
}

SOFTHCA_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}
