// SPDX-License-Identifier: BSD-3-Clause
// The send queue of a QP: checking, trying and completing work requests. Those that have to wait
// are in qp_pending.cpp.
#include <algorithm>
#include <cerrno>

#include "softhca/hca/clock.hpp"
#include "softhca/hca/deliver.hpp"
#include "softhca/hca/qp.hpp"
#include "softhca/hca/robust_lock.hpp"
#include "softhca/hca/runtime.hpp"
#include "softhca/hca/transport.hpp"

namespace softhca::hca {
namespace {

// How often a request that nobody answers is tried. A real HCA waits for its whole timeout; here
// the common case is a peer that is about to reach RTR. The longer it takes, the rarer the tries:
// thousands of requests may be waiting on one machine.
constexpr std::uint64_t kFirstBackoffNs = 50'000;
constexpr std::uint64_t kShortBackoffNs = 2'000'000;
constexpr std::uint64_t kLongBackoffNs = 50'000'000;
constexpr std::uint64_t kBackoffShare = 8;  // of the time waited so far

constexpr std::uint8_t kRnrForEver = 7;

/// IBTA vol 1, 9.7.6.1.3: 4.096 us * 2^timeout for each of retry_cnt + 1 tries; 0 is for ever.
std::uint64_t answer_patience_ns(const ibv_qp_attr& attr) {
  return attr.timeout == 0 ? 0 : (attr.retry_cnt + 1ULL) * (4096ULL << (attr.timeout & 31U));
}

ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_ATOMIC_WRITE:
      return IBV_WC_ATOMIC_WRITE;
    default:
      return IBV_WC_SEND;
  }
}

bool opcode_allowed(ibv_qp_type type, ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return true;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return type != IBV_QPT_UD;
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_ATOMIC_WRITE:
      return type == IBV_QPT_RC;
    default:
      return false;
  }
}

/// Whether an outcome was made by the peer and not by this side alone.
bool came_from_peer(const Outcome& outcome) {
  switch (outcome.kind) {
    case Outcome::Kind::NotReady:
      return true;
    case Outcome::Kind::NoAnswer:
      return false;
    case Outcome::Kind::Done:
      break;
  }
  return outcome.status != IBV_WC_LOC_PROT_ERR && outcome.status != IBV_WC_LOC_LEN_ERR &&
         outcome.status != IBV_WC_LOC_QP_OP_ERR;
}

SendRequest request_of(const ibv_send_wr& wr, ibv_qp_type type, std::uint32_t counter) {
  SendRequest request;
  request.wr_id = wr.wr_id;
  request.counter = counter;
  request.opcode = wr.opcode;
  request.flags = wr.send_flags;
  request.imm_data = wr.imm_data;
  request.sges = {wr.sg_list, static_cast<std::size_t>(wr.num_sge)};
  if (type == IBV_QPT_UD) {
    request.av = &reinterpret_cast<const AddressHandle*>(wr.wr.ud.ah)->av;
    request.remote_qpn = wr.wr.ud.remote_qpn & kQpnMask;
    request.remote_qkey = wr.wr.ud.remote_qkey;
  } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.remote_addr = wr.wr.atomic.remote_addr;
    request.rkey = wr.wr.atomic.rkey;
    request.compare_add = wr.wr.atomic.compare_add;
    request.swap = wr.wr.atomic.swap;
  } else {
    request.remote_addr = wr.wr.rdma.remote_addr;
    request.rkey = wr.wr.rdma.rkey;
  }
  return request;
}

}  // namespace

int Qp::check(const ibv_send_wr& wr, std::uint32_t ahead) const {
  if (!opcode_allowed(init_.type, wr.opcode) || wr.num_sge < 0 ||
      static_cast<std::uint32_t>(wr.num_sge) > init_.cap.max_send_sge ||
      (wr.num_sge > 0 && wr.sg_list == nullptr) ||
      (init_.type == IBV_QPT_UD && wr.wr.ud.ah == nullptr)) {
    return EINVAL;
  }
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    std::uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i) {
      length += wr.sg_list[i].length;
    }
    // The value of an atomic write is part of the request, whatever the program's inline data.
    const bool fits = wr.opcode == IBV_WR_ATOMIC_WRITE || length <= init_.cap.max_inline_data;
    if (!fits || length > kMaxInline || wr.opcode == IBV_WR_RDMA_READ) {
      return EINVAL;
    }
  }
  switch (state()) {
    case IBV_QPS_RESET:
    case IBV_QPS_INIT:
    case IBV_QPS_RTR:
      return EINVAL;
    default:
      break;
  }
  // A request leaves the queue when its completion, or a later one, is polled: as on hardware.
  const std::uint32_t in_queue = posted_ - record_->sq_freed.load(std::memory_order_acquire);
  return in_queue + ahead >= init_.cap.max_send_wr ? ENOMEM : 0;
}

int Qp::post_send(ibv_send_wr* wr, ibv_send_wr** bad) {
  const std::lock_guard lock(send_mutex_);
  for (; wr != nullptr; wr = wr->next) {
    const int error = check(*wr, 0);
    if (error != 0) {
      *bad = wr;
      return error;
    }
    accept(*wr);
  }
  return 0;
}

int Qp::post_batch(const ibv_send_wr& first) {
  const std::lock_guard lock(send_mutex_);
  std::uint32_t ahead = 0;
  for (const ibv_send_wr* wr = &first; wr != nullptr; wr = wr->next, ++ahead) {
    const int error = check(*wr, ahead);
    if (error != 0) {
      return error;
    }
  }
  for (const ibv_send_wr* wr = &first; wr != nullptr; wr = wr->next) {
    accept(*wr);
  }
  return 0;
}

void Qp::accept(const ibv_send_wr& wr) {
  const SendRequest request = request_of(wr, init_.type, posted_++);
  const Asynchrony mode = runtime_->faults().asynchrony();
  const ibv_qp_state now_in = state();
  if (!mode.on && (now_in == IBV_QPS_ERR || now_in == IBV_QPS_SQE)) {
    flush_sends();  // those still waiting complete first
    complete(request, IBV_WC_WR_FLUSH_ERR, 0);
    return;
  }
  if (mode.on || !pending_.empty() || now_in == IBV_QPS_SQD) {
    enqueue(request, mode);
    return;
  }
  RetryState retry;
  const Step step = attempt(request, retry);
  if (!step.retry_at) {
    complete(request, step.status, step.byte_len);
    return;
  }
  pending_.push_back(std::make_unique<Pending>(request));
  pending_.back()->retry = retry;
  pending_.back()->not_before = *step.retry_at;
  runtime_->pending().schedule(*this, *step.retry_at);
}

Qp::Step Qp::attempt(const SendRequest& request, RetryState& retry) {
  adopt_migration();
  if (const auto fault = suffer_rules(request, retry)) {
    return *fault;
  }
  const Sender sender{*runtime_, slot_, *record_, attr_, path_};
  const Outcome outcome = init_.type == IBV_QPT_UD ? execute_datagram(sender, request)
                                                   : execute_connected(sender, request);
  if (init_.type == IBV_QPT_RC && came_from_peer(outcome) && path_broken(true)) {
    retry.answer_lost = outcome.kind == Outcome::Kind::Done;
    retry.answer = outcome.status;
    retry.answer_bytes = outcome.byte_len;
    return no_answer(retry);
  }
  switch (outcome.kind) {
    case Outcome::Kind::Done:
      return {std::nullopt, outcome.status, outcome.byte_len};
    case Outcome::Kind::NotReady:
      retry.unanswered_since = 0;
      retry.backoff_ns = 0;
      if (attr_.rnr_retry != kRnrForEver && retry.rnr_used >= attr_.rnr_retry) {
        runtime_->count(record_->path.port_index, Counter::RcRnrExceeded);
        return {std::nullopt, IBV_WC_RNR_RETRY_EXC_ERR, 0};
      }
      ++retry.rnr_used;
      return {monotonic_ns() + rnr_timer_ns(outcome.rnr_timer), IBV_WC_SUCCESS, 0};
    case Outcome::Kind::NoAnswer:
      break;
  }
  return no_answer(retry);
}

Qp::Step Qp::no_answer(RetryState& retry) {
  const std::uint64_t now = monotonic_ns();
  if (retry.unanswered_since == 0) {
    retry.unanswered_since = now;
  }
  const std::uint64_t patience = answer_patience_ns(attr_);
  const std::uint64_t waited = now - retry.unanswered_since;
  if (patience != 0 && waited >= patience && migrate_by_itself()) {
    retry.unanswered_since = 0;
    retry.backoff_ns = 0;
    retry.rnr_used = 0;
    return {now, IBV_WC_SUCCESS, 0};
  }
  if (patience != 0 && waited >= patience) {
    runtime_->count(record_->path.port_index, Counter::RcRetryExceeded);
    return {std::nullopt, IBV_WC_RETRY_EXC_ERR, 0};
  }
  const std::uint64_t most = std::clamp(waited / kBackoffShare, kShortBackoffNs, kLongBackoffNs);
  retry.backoff_ns = std::clamp(retry.backoff_ns * 2, kFirstBackoffNs, most);
  const std::uint64_t wait =
      patience == 0 ? retry.backoff_ns : std::min(retry.backoff_ns, patience - waited);
  return {now + wait, IBV_WC_SUCCESS, 0};
}

void Qp::complete(const SendRequest& request, ibv_wc_status status, std::uint32_t byte_len) {
  const bool failed = status != IBV_WC_SUCCESS;
  const bool breaks = failed && status != IBV_WC_WR_FLUSH_ERR;
  const bool reliable = init_.type == IBV_QPT_RC;
  // First the state: who polls the failure finds the QP in error.
  if (breaks && reliable) {
    record_->state.store(IBV_QPS_ERR, std::memory_order_seq_cst);
  } else if (breaks) {
    // Only the send queue of a UC or UD QP stops; receiving goes on.
    std::uint32_t running = IBV_QPS_RTS;
    record_->state.compare_exchange_strong(running, IBV_QPS_SQE);
  }
  if (failed || init_.signal_all || (request.flags & IBV_SEND_SIGNALED) != 0) {
    Cqe entry = completion_for(*record_, slot_);
    entry.wr_id = request.wr_id;
    entry.counter = request.counter;
    entry.byte_len = byte_len;
    entry.status = static_cast<std::uint8_t>(status);
    entry.opcode = static_cast<std::uint8_t>(completion_opcode(request.opcode));
    entry.solicited = failed ? 1 : 0;
    push_completion(runtime_->registry(), runtime_->token(), init_.send_cq, runtime_->token(),
                    entry);
  }
  if (breaks) {
    flush_sends();
  }
  if (breaks && reliable) {
    flush_recv_queue();
  }
}

}  // namespace softhca::hca
