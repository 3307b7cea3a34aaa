// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/verbs/send_builder.hpp"

#include <cerrno>

#include "softhca/verbs/objects.hpp"

namespace softhca::verbs {
namespace {

constexpr std::uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kWrites = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
constexpr std::uint64_t kFetches = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                   IBV_QP_EX_WITH_ATOMIC_WRITE;

SendBuilder& builder(ibv_qp_ex* qp) {
  return *of(&qp->qp_base)->builder;
}

ibv_send_wr& add_rdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey,
                      std::uint64_t remote_addr) {
  ibv_send_wr& wr = builder(qp).add(*qp, opcode);
  wr.wr.rdma.remote_addr = remote_addr;
  wr.wr.rdma.rkey = rkey;
  return wr;
}

void add_atomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t remote_addr,
                std::uint64_t compare_add, std::uint64_t swap) {
  ibv_send_wr& wr = builder(qp).add(*qp, opcode);
  wr.wr.atomic.remote_addr = remote_addr;
  wr.wr.atomic.rkey = rkey;
  wr.wr.atomic.compare_add = compare_add;
  wr.wr.atomic.swap = swap;
}

}  // namespace

int SendBuilder::check(ibv_qp_type type, std::uint64_t flags) {
  if ((flags & ~(kSends | kWrites | kFetches)) != 0) {
    return EOPNOTSUPP;
  }
  const std::uint64_t offered = type == IBV_QPT_RC   ? kSends | kWrites | kFetches
                                : type == IBV_QPT_UC ? kSends | kWrites
                                                     : kSends;
  return (flags & ~offered) != 0 ? EINVAL : 0;
}

void SendBuilder::install(ibv_qp_ex& qp, std::uint64_t flags) {
  qp.wr_start = [](ibv_qp_ex* of_qp) { builder(of_qp).start(); };
  qp.wr_complete = [](ibv_qp_ex* of_qp) { return builder(of_qp).complete(*of(&of_qp->qp_base)); };
  qp.wr_abort = [](ibv_qp_ex* of_qp) { builder(of_qp).abort(); };
  qp.wr_set_sge = [](ibv_qp_ex* of_qp, std::uint32_t lkey, std::uint64_t address,
                     std::uint32_t length) {
    const ibv_sge sge{address, length, lkey};
    builder(of_qp).set_sges(1, &sge);
  };
  qp.wr_set_sge_list = [](ibv_qp_ex* of_qp, std::size_t count, const ibv_sge* list) {
    builder(of_qp).set_sges(count, list);
  };
  qp.wr_set_inline_data = [](ibv_qp_ex* of_qp, void* address, std::size_t length) {
    const ibv_data_buf one{address, length};
    builder(of_qp).set_inline(1, &one);
  };
  qp.wr_set_inline_data_list = [](ibv_qp_ex* of_qp, std::size_t count, const ibv_data_buf* list) {
    builder(of_qp).set_inline(count, list);
  };
  if (qp.qp_base.qp_type == IBV_QPT_UD) {
    qp.wr_set_ud_addr = [](ibv_qp_ex* of_qp, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
      ibv_send_wr& wr = builder(of_qp).last();
      wr.wr.ud.ah = ah;
      wr.wr.ud.remote_qpn = qpn;
      wr.wr.ud.remote_qkey = qkey;
    };
  }
  // Only what was asked for is there: a program that uses more must fail here as elsewhere.
  if ((flags & IBV_QP_EX_WITH_SEND) != 0) {
    qp.wr_send = [](ibv_qp_ex* of_qp) { builder(of_qp).add(*of_qp, IBV_WR_SEND); };
  }
  if ((flags & IBV_QP_EX_WITH_SEND_WITH_IMM) != 0) {
    qp.wr_send_imm = [](ibv_qp_ex* of_qp, __be32 imm_data) {
      builder(of_qp).add(*of_qp, IBV_WR_SEND_WITH_IMM).imm_data = imm_data;
    };
  }
  if ((flags & IBV_QP_EX_WITH_RDMA_WRITE) != 0) {
    qp.wr_rdma_write = [](ibv_qp_ex* of_qp, std::uint32_t rkey, std::uint64_t address) {
      add_rdma(of_qp, IBV_WR_RDMA_WRITE, rkey, address);
    };
  }
  if ((flags & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM) != 0) {
    qp.wr_rdma_write_imm = [](ibv_qp_ex* of_qp, std::uint32_t rkey, std::uint64_t address,
                              __be32 imm_data) {
      add_rdma(of_qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address).imm_data = imm_data;
    };
  }
  if ((flags & IBV_QP_EX_WITH_RDMA_READ) != 0) {
    qp.wr_rdma_read = [](ibv_qp_ex* of_qp, std::uint32_t rkey, std::uint64_t address) {
      add_rdma(of_qp, IBV_WR_RDMA_READ, rkey, address);
    };
  }
  if ((flags & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP) != 0) {
    qp.wr_atomic_cmp_swp = [](ibv_qp_ex* of_qp, std::uint32_t rkey, std::uint64_t address,
                              std::uint64_t compare, std::uint64_t swap) {
      add_atomic(of_qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
    };
  }
  if ((flags & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD) != 0) {
    qp.wr_atomic_fetch_add = [](ibv_qp_ex* of_qp, std::uint32_t rkey, std::uint64_t address,
                                std::uint64_t add) {
      add_atomic(of_qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, add, 0);
    };
  }
  if ((flags & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0) {
    qp.wr_atomic_write = [](ibv_qp_ex* of_qp, std::uint32_t rkey, std::uint64_t address,
                            const void* value) {
      add_rdma(of_qp, IBV_WR_ATOMIC_WRITE, rkey, address);
      const ibv_data_buf data{const_cast<void*>(value), sizeof(std::uint64_t)};
      builder(of_qp).set_inline(1, &data);
    };
  }
}

void SendBuilder::start() {
  mutex_.lock();
  requests_.clear();
  error_ = 0;
}

int SendBuilder::complete(Qp& qp) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    requests_[i].wr.next = i + 1 < requests_.size() ? &requests_[i + 1].wr : nullptr;
  }
  const bool any = !requests_.empty();
  const int error = error_ != 0 ? error_ : any ? qp.queue->post_batch(requests_.front().wr) : 0;
  requests_.clear();
  mutex_.unlock();
  return error;
}

void SendBuilder::abort() {
  requests_.clear();
  mutex_.unlock();
}

ibv_send_wr& SendBuilder::add(const ibv_qp_ex& qp, ibv_wr_opcode opcode) {
  ibv_send_wr& wr = requests_.emplace_back().wr;
  wr.wr_id = qp.wr_id;
  wr.send_flags = qp.wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
  wr.opcode = opcode;
  return wr;
}

ibv_send_wr& SendBuilder::last() {
  if (requests_.empty()) {
    error_ = EINVAL;
    return nowhere_;
  }
  return requests_.back().wr;
}

void SendBuilder::set_sges(std::size_t count, const ibv_sge* list) {
  ibv_send_wr& wr = last();
  if (count > hca::kMaxSge) {
    error_ = ENOMEM;
  } else if (!requests_.empty()) {
    Request& request = requests_.back();
    request.sges.assign(list, list + count);
    wr.sg_list = request.sges.data();
    wr.num_sge = static_cast<int>(count);
  }
}

void SendBuilder::set_inline(std::size_t count, const ibv_data_buf* list) {
  ibv_send_wr& wr = last();
  if (requests_.empty()) {
    return;
  }
  Request& request = requests_.back();
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i].length > hca::kMaxInline - request.inline_data.size()) {
      error_ = ENOMEM;
      return;
    }
    const auto* bytes = static_cast<const std::uint8_t*>(list[i].addr);
    request.inline_data.insert(request.inline_data.end(), bytes, bytes + list[i].length);
  }
  request.sges.assign(1, {reinterpret_cast<std::uint64_t>(request.inline_data.data()),
                          static_cast<std::uint32_t>(request.inline_data.size()), 0});
  wr.sg_list = request.sges.data();
  wr.num_sge = 1;
  wr.send_flags |= IBV_SEND_INLINE;
}

}  // namespace softhca::verbs
