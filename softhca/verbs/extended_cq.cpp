// SPDX-License-Identifier: BSD-3-Clause
// Extended completion queues: completions are read field by field where they lie.
#include <cerrno>

#include "softhca/hca/clock.hpp"
#include "softhca/verbs/objects.hpp"

namespace softhca::verbs {
namespace {

constexpr std::uint64_t kTimes =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint64_t kOffered = std::uint64_t{IBV_WC_STANDARD_FLAGS} | kTimes;

const hca::Cqe& current(ibv_cq_ex* cq) {
  return of(ibv_cq_ex_to_cq(cq))->poller->entry;
}

/// Takes the next completion: 0, ENOENT, or EIO when the queue is in error.
int take(ibv_cq_ex* base) {
  Cq& cq = *of(ibv_cq_ex_to_cq(base));
  const int found = cq.queue->take(cq.poller->entry);
  if (found != 1) {
    return found == 0 ? ENOENT : EIO;
  }
  base->status = static_cast<ibv_wc_status>(cq.poller->entry.status);
  base->wr_id = cq.poller->entry.wr_id;
  return 0;
}

/// The queue belongs to the caller from a start that found something until the end.
int start_poll(ibv_cq_ex* base, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask != 0) {
    return EINVAL;
  }
  ExtendedPoll& poller = *of(ibv_cq_ex_to_cq(base))->poller;
  poller.mutex.lock();
  const int error = take(base);
  if (error != 0) {
    poller.mutex.unlock();
    return error;
  }
  poller.polling = true;
  return 0;
}

void end_poll(ibv_cq_ex* base) {
  ExtendedPoll& poller = *of(ibv_cq_ex_to_cq(base))->poller;
  if (poller.polling) {  // programs call it after a start that found nothing, too
    poller.polling = false;
    poller.mutex.unlock();
  }
}

void install(ibv_cq_ex& cq, std::uint64_t wc_flags) {
  cq.start_poll = start_poll;
  cq.next_poll = take;
  cq.end_poll = end_poll;
  cq.read_opcode = [](ibv_cq_ex* of_cq) {
    return static_cast<ibv_wc_opcode>(current(of_cq).opcode);
  };
  cq.read_vendor_err = [](ibv_cq_ex*) -> std::uint32_t { return 0; };
  cq.read_wc_flags = [](ibv_cq_ex* of_cq) -> unsigned { return current(of_cq).wc_flags; };
  // Only what was asked for is there.
  if ((wc_flags & IBV_WC_EX_WITH_BYTE_LEN) != 0) {
    cq.read_byte_len = [](ibv_cq_ex* of_cq) { return current(of_cq).byte_len; };
  }
  if ((wc_flags & IBV_WC_EX_WITH_IMM) != 0) {
    cq.read_imm_data = [](ibv_cq_ex* of_cq) -> __be32 { return current(of_cq).imm_data; };
  }
  if ((wc_flags & IBV_WC_EX_WITH_QP_NUM) != 0) {
    cq.read_qp_num = [](ibv_cq_ex* of_cq) { return current(of_cq).qp_num; };
  }
  if ((wc_flags & IBV_WC_EX_WITH_SRC_QP) != 0) {
    cq.read_src_qp = [](ibv_cq_ex* of_cq) { return current(of_cq).src_qp; };
  }
  if ((wc_flags & IBV_WC_EX_WITH_SLID) != 0) {
    cq.read_slid = [](ibv_cq_ex* of_cq) -> std::uint32_t { return current(of_cq).slid; };
  }
  if ((wc_flags & IBV_WC_EX_WITH_SL) != 0) {
    cq.read_sl = [](ibv_cq_ex* of_cq) { return current(of_cq).sl; };
  }
  if ((wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS) != 0) {
    cq.read_dlid_path_bits = [](ibv_cq_ex* of_cq) { return current(of_cq).dlid_path_bits; };
  }
  if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0) {
    cq.read_completion_ts = [](ibv_cq_ex* of_cq) { return current(of_cq).completed_at; };
  }
  if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0) {
    cq.read_completion_wallclock_ns = [](ibv_cq_ex* of_cq) {
      return hca::wallclock_ns() - (hca::monotonic_ns() - current(of_cq).completed_at);
    };
  }
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init) {
  constexpr std::uint32_t kMasks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  const bool flags_given = (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if ((init->comp_mask & ~kMasks) != 0 || (init->wc_flags & ~kOffered) != 0 ||
      (flags_given &&
       (init->flags & ~static_cast<std::uint32_t>(IBV_CREATE_CQ_ATTR_SINGLE_THREADED)) != 0)) {
    return fail(EOPNOTSUPP);
  }
  if (init->cqe > hca::kMaxCqe) {
    return fail(EINVAL);
  }
  ibv_cq* cq = ibv_create_cq(context, static_cast<int>(init->cqe), init->cq_context, init->channel,
                             static_cast<int>(init->comp_vector));
  if (cq == nullptr) {
    return nullptr;
  }
  if ((init->wc_flags & kTimes) != 0) {
    of(cq)->queue->keep_times();
  }
  of(cq)->poller = std::make_unique<ExtendedPoll>();
  install(of(cq)->base, init->wc_flags);
  return &of(cq)->base;
}

}  // namespace softhca::verbs
