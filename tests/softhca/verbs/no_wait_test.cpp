// SPDX-License-Identifier: BSD-3-Clause
// softhca adds no delay of its own to creating and modifying objects: a thread that may not sleep,
// yield or wait by any system call does all of it.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <thread>

#include "softhca/verbs/two_hosts.hpp"

namespace softhca::test {
namespace {

constexpr std::array kWaits = {
    SYS_nanosleep,   SYS_clock_nanosleep, SYS_poll,        SYS_ppoll, SYS_select,
    SYS_pselect6,    SYS_epoll_wait,      SYS_epoll_pwait, SYS_pause, SYS_flock,
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    SYS_sched_yield, SYS_futex,  // of which a sanitizer's runtime makes its own locks
#endif
};

/// From here on this thread is ended by SIGSYS when it makes a call of kWaits.
void forbid_waiting() {
  std::vector<sock_filter> filter;
  const auto load = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  filter.push_back({BPF_LD | BPF_W | BPF_ABS, 0, 0, load});
  for (const long call : kWaits) {
    filter.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<std::uint32_t>(call)});
    filter.push_back({BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS});
  }
  filter.push_back({BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW});
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  CHILD_CHECK(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHILD_CHECK(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

ibv_qp* make_qp(Program& program) {
  ibv_qp_init_attr init{};
  init.send_cq = program.cq;
  init.recv_cq = program.cq;
  init.cap = {8, 8, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(program.pd, &init);
  CHILD_CHECK(qp != nullptr);
  return qp;
}

void bring_to_rts(ibv_qp* qp, const Card& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  CHILD_CHECK(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
              0);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer.qpn;
  attr.ah_attr.dlid = peer.lid;
  attr.ah_attr.port_num = 1;
  CHILD_CHECK(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
              0);
  attr.qp_state = IBV_QPS_RTS;
  CHILD_CHECK(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/// Every kind of object, and a QP through all its states, again and again.
void create_and_modify(Program& program) {
  constexpr int kRounds = 300;  // more than the chunk that a process takes slots in
  for (int round = 0; round < kRounds; ++round) {
    ibv_cq* cq = ibv_create_cq(program.context, 16, nullptr, nullptr, 0);
    CHILD_CHECK(cq != nullptr);
    ibv_mr* mr = ibv_reg_mr(program.pd, program.buffer.data(), 4096, IBV_ACCESS_LOCAL_WRITE);
    CHILD_CHECK(mr != nullptr);
    ibv_srq_init_attr srq_init{nullptr, {16, 1, 0}};
    ibv_srq* srq = ibv_create_srq(program.pd, &srq_init);
    CHILD_CHECK(srq != nullptr);
    ibv_qp* qp = make_qp(program);
    bring_to_rts(qp, program.peer);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    CHILD_CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
    attr.qp_state = IBV_QPS_ERR;
    CHILD_CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    CHILD_CHECK(ibv_destroy_qp(qp) == 0);
    CHILD_CHECK(ibv_destroy_srq(srq) == 0);
    CHILD_CHECK(ibv_dereg_mr(mr) == 0);
    CHILD_CHECK(ibv_destroy_cq(cq) == 0);
  }
}

}  // namespace

TEST_F(TwoHosts, CreatingAndModifyingNeverWaits) {
  run(
      [](int socket) {
        Program program(socket, IBV_QPT_RC, false);
        program.connect();
        std::thread calls([&program] {
          forbid_waiting();
          create_and_modify(program);
        });
        calls.join();
        program.meet();
      },
      [](int socket) {
        Program program(socket, IBV_QPT_RC, false);
        program.connect();
        program.meet();
      });
}

TEST_F(TwoHosts, AThreadThatMayNotWaitIsEndedWhenItDoes) {
  const pid_t child = start("H1", 0, [](int) {
    forbid_waiting();
    const timespec none{0, 0};
    ::syscall(SYS_nanosleep, &none, nullptr);
  });
  EXPECT_EQ(finish(child), 128 + SIGSYS);
}

}  // namespace softhca::test
