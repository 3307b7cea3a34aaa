// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous events.
#include <cerrno>

#include "softhca/verbs/objects.hpp"

using namespace softhca;
using namespace softhca::verbs;

namespace {

/// Turns a record into an event and counts it as handed out. False when its object is gone.
bool resolve(const hca::EventRecord& record, ibv_async_event& event) {
  event.event_type = static_cast<ibv_event_type>(record.type);
  switch (record.target) {
    case hca::EventTarget::Port:
      event.element.port_num = static_cast<int>(record.slot);
      return true;
    case hca::EventTarget::Cq:
      return cq_table().with(record.slot, [&](Cq& cq) {
        if (cq.queue->generation() != record.generation) {
          return false;
        }
        pthread_mutex_lock(&cq.base.mutex);
        ++cq.async_events_reported;
        pthread_mutex_unlock(&cq.base.mutex);
        event.element.cq = base_of(cq);
        return true;
      });
    case hca::EventTarget::Qp:
      return qp_table().with(record.slot, [&](Qp& qp) {
        if (qp.queue->generation() != record.generation) {
          return false;
        }
        pthread_mutex_lock(&qp.base.qp_base.mutex);
        ++qp.events_reported;
        pthread_mutex_unlock(&qp.base.qp_base.mutex);
        event.element.qp = &qp.base.qp_base;
        return true;
      });
    case hca::EventTarget::Srq:
      return srq_table().with(record.slot, [&](Srq& srq) {
        if (srq.queue->generation() != record.generation) {
          return false;
        }
        pthread_mutex_lock(&srq.base.mutex);
        ++srq.events_reported;
        pthread_mutex_unlock(&srq.base.mutex);
        event.element.srq = &srq.base;
        return true;
      });
  }
  return false;
}

}  // namespace

SOFTHCA_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  for (;;) {
    const auto record = of(context)->async->read();
    if (!record) {
      return -1;
    }
    if (resolve(*record, *event)) {
      return 0;
    }
  }
}

SOFTHCA_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  const auto ack = [](pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& completed) {
    pthread_mutex_lock(&mutex);
    ++completed;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
  };
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq& cq = *event->element.cq;
      ack(cq.mutex, cq.cond, cq.async_events_completed);
      break;
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp& qp = *event->element.qp;
      ack(qp.mutex, qp.cond, qp.events_completed);
      break;
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq& srq = *event->element.srq;
      ack(srq.mutex, srq.cond, srq.events_completed);
      break;
    }
    default:
      break;  // port events have no object
  }
}
