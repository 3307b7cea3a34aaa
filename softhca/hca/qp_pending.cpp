// SPDX-License-Identifier: BSD-3-Clause
// Work requests that wait: for an answer, for a receive, for the send queue to run again, or, in
// the asynchronous mode, for their time. They are executed in order, and completed in order.
#include <algorithm>

#include "softhca/hca/clock.hpp"
#include "softhca/hca/deliver.hpp"
#include "softhca/hca/qp.hpp"
#include "softhca/hca/runtime.hpp"

namespace softhca::hca {

std::uint64_t Qp::delay(const Asynchrony& mode, Wait kind) {
  return mode.on ? drawn_delay_ns(mode, kind, init_.hca, record_->qpn, delays_drawn_++) : 0;
}

void Qp::enqueue(const SendRequest& request, const Asynchrony& mode) {
  pending_.push_back(std::make_unique<Pending>(request));
  if (mode.on) {
    Pending& waiting = *pending_.back();
    const bool runs = state() == IBV_QPS_RTS || state() == IBV_QPS_SQD;
    waiting.not_before = monotonic_ns() + delay(mode, runs ? Wait::Execution : Wait::Flush);
    runtime_->pending().schedule(*this, waiting.not_before);
  }
}

/// Whether the first request that was not executed yet may be, now or later.
bool Qp::may_execute() const {
  if (executed_ == pending_.size()) {
    return false;
  }
  const bool failed = executed_ > 0 && pending_[executed_ - 1]->executed->status != IBV_WC_SUCCESS;
  // A queue that is being drained finishes what it has started.
  return !failed && (state() == IBV_QPS_RTS || pending_[executed_]->started());
}

void Qp::execute_next(const Asynchrony& mode) {
  Pending& next = *pending_[executed_];
  const Step step = attempt(next.request.request(), next.retry);
  if (step.retry_at) {
    next.not_before = *step.retry_at;
    return;
  }
  next.executed = step;
  if (mode.on) {
    next.complete_at = monotonic_ns() + delay(mode, Wait::Completion);
  }
  ++executed_;
}

std::optional<std::uint64_t> Qp::progress(std::uint64_t now) {
  const std::lock_guard lock(send_mutex_);
  const Asynchrony mode = runtime_->faults().asynchrony();
  for (;; now = monotonic_ns()) {
    const ibv_qp_state now_in = state();
    if (now_in == IBV_QPS_ERR || now_in == IBV_QPS_SQE) {
      flush_sends();
      return std::nullopt;
    }
    if (now_in != IBV_QPS_RTS && now_in != IBV_QPS_SQD) {
      return std::nullopt;  // modify() schedules it again
    }
    if (executed_ > 0 && pending_.front()->complete_at <= now) {
      const std::unique_ptr<Pending> done = std::move(pending_.front());
      pending_.pop_front();
      --executed_;
      complete(done->request.request(), done->executed->status, done->executed->byte_len);
      continue;
    }
    const bool waits = may_execute();
    if (waits && pending_[executed_]->not_before <= now) {
      execute_next(mode);
      continue;
    }
    tell_drained();
    std::optional<std::uint64_t> next;
    if (executed_ > 0) {
      next = pending_.front()->complete_at;
    }
    if (waits) {
      next = std::min(next.value_or(~std::uint64_t{0}), pending_[executed_]->not_before);
    }
    return next;
  }
}

bool Qp::drained() const {
  return pending_.empty() || !pending_.front()->started();
}

void Qp::tell_drained() {
  if (tell_when_drained_ && state() == IBV_QPS_SQD && drained()) {
    tell_when_drained_ = false;
    send_qp_event(runtime_->registry(), slot_, IBV_EVENT_SQ_DRAINED);
  }
}

/// Flushes the send queue of a QP that has come into the error state, at once or later.
void Qp::stop_sending() {
  const Asynchrony mode = runtime_->faults().asynchrony();
  if (mode.on && !pending_.empty()) {
    runtime_->pending().schedule(*this, monotonic_ns() + delay(mode, Wait::Flush));
  } else {
    flush_sends();
  }
}

/// Requests that were executed but not completed are flushed too: their acknowledgements are lost
/// with the queue, though the peer has what they brought.
void Qp::flush_sends() {
  executed_ = 0;
  while (!pending_.empty()) {
    const std::unique_ptr<Pending> waiting = std::move(pending_.front());
    pending_.pop_front();
    complete(waiting->request.request(), IBV_WC_WR_FLUSH_ERR, 0);
  }
}

}  // namespace softhca::hca
