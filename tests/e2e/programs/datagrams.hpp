// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>
#include <wireup/wireup.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace e2e {

/// A UD queue pair of the program's own, on the context's device and protection domain, that sends
/// and receives 4-byte messages. It must die before the context. Every failure ends the process.
class Datagrams {
 public:
  /// No privileged one: bit 31 is clear.
  static constexpr std::uint32_t kQKey = 0x0000'5117;
  static constexpr std::size_t kGrhSize = 40;

  Datagrams(wireup_context_t* context, const wireup_path_t& like, std::uint32_t messages)
      : pd_(wireup_context_pd(context)), slots_(messages + 1), buffer_(slots_ * kSlotSize) {
    cq_ = ibv_create_cq(wireup_context_verbs(context), static_cast<int>(2 * slots_), nullptr,
                        nullptr, 0);
    check(cq_ != nullptr, "ibv_create_cq");
    mr_ = ibv_reg_mr(pd_, buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE);
    check(mr_ != nullptr, "ibv_reg_mr");
    ibv_qp_init_attr init{};
    init.send_cq = cq_;
    init.recv_cq = cq_;
    init.cap = {1, static_cast<std::uint32_t>(slots_), 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    qp_ = ibv_create_qp(pd_, &init);
    check(qp_ != nullptr, "ibv_create_qp");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.pkey_index = like.pkey_index;
    attr.port_num = like.port;
    attr.qkey = kQKey;
    check(ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) ==
              0,
          "INIT");
    for (std::size_t slot = 1; slot < slots_; ++slot) {
      post_receive(slot);
    }
    attr = {};
    attr.qp_state = IBV_QPS_RTR;
    check(ibv_modify_qp(qp_, &attr, IBV_QP_STATE) == 0, "RTR");
    attr.qp_state = IBV_QPS_RTS;
    check(ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS");
  }
  ~Datagrams() {
    ibv_destroy_qp(qp_);
    ibv_dereg_mr(mr_);
    ibv_destroy_cq(cq_);
  }
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  [[nodiscard]] std::uint32_t qpn() const noexcept { return qp_->qp_num; }

  /// Sends `value` along the path to the queue pair there, and waits for the completion.
  void send(const wireup_path_t& path, std::uint32_t qpn, std::uint32_t value) {
    ibv_ah_attr attributes{};
    if (wireup_path_ah_attr(&path, &attributes) != WIREUP_OK) {
      std::fprintf(stderr, "ah_attr: %s\n", wireup_last_error());
      std::exit(1);
    }
    ibv_ah* ah = ibv_create_ah(pd_, &attributes);
    check(ah != nullptr, "ibv_create_ah");
    std::memcpy(buffer_.data(), &value, sizeof value);
    ibv_sge part{reinterpret_cast<std::uintptr_t>(buffer_.data()), sizeof value, mr_->lkey};
    ibv_send_wr work{};
    work.sg_list = &part;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.ud = {ah, qpn, kQKey};
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(qp_, &work, &bad) == 0, "ibv_post_send");
    is_sending_ = true;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (is_sending_) {
      poll();
      check(std::chrono::steady_clock::now() < end, "no completion of a send");
    }
    check(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
  }

  /// Takes what has come; values in the order of their coming.
  std::vector<std::uint32_t> take() {
    poll();
    std::vector<std::uint32_t> values;
    values.swap(received_);
    return values;
  }

 private:
  static constexpr std::size_t kSlotSize = 64;

  static void check(bool good, const char* what) {
    if (!good) {
      std::perror(what);
      std::exit(1);
    }
  }
  void post_receive(std::size_t slot) {
    ibv_sge part{reinterpret_cast<std::uintptr_t>(buffer_.data() + slot * kSlotSize), kSlotSize,
                 mr_->lkey};
    ibv_recv_wr work{slot, nullptr, &part, 1};
    ibv_recv_wr* bad = nullptr;
    check(ibv_post_recv(qp_, &work, &bad) == 0, "ibv_post_recv");
  }
  void poll() {
    ibv_wc completion{};
    while (ibv_poll_cq(cq_, 1, &completion) > 0) {
      check(completion.status == IBV_WC_SUCCESS, ibv_wc_status_str(completion.status));
      if (completion.opcode != IBV_WC_RECV) {
        is_sending_ = false;
        continue;
      }
      std::uint32_t value = 0;
      std::memcpy(&value, buffer_.data() + completion.wr_id * kSlotSize + kGrhSize, sizeof value);
      received_.push_back(value);
      post_receive(completion.wr_id);
    }
  }

  ibv_pd* pd_;
  std::size_t slots_;
  /// Slot 0 is what is sent.
  std::vector<std::uint8_t> buffer_;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  bool is_sending_ = false;
  std::vector<std::uint32_t> received_;
};

}  // namespace e2e
