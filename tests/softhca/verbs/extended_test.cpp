// SPDX-License-Identifier: BSD-3-Clause
// The extended interfaces: sends put together call by call, completions read field by field, parent
// domains.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "softhca/verbs/two_hosts.hpp"

namespace softhca::test {
namespace {

/// A program whose QP has the extended send operations.
ibv_qp_ex* with_operations(Program& program, std::uint64_t operations) {
  program.destroy_qp();
  ibv_qp_init_attr_ex init{};
  init.send_cq = program.cq;
  init.recv_cq = program.cq;
  init.cap = {4, 8, 2, 1, 32};
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = program.pd;
  init.send_ops_flags = operations;
  program.qp = ibv_create_qp_ex(program.context, &init);
  CHILD_CHECK(program.qp != nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  CHILD_CHECK(ibv_modify_qp(program.qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
              0);
  return ibv_qp_to_qp_ex(program.qp);
}

void add_send(Program& program, ibv_qp_ex* qp, std::uint64_t id, std::size_t offset) {
  qp->wr_id = id;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, program.mr->lkey, program.address(offset), 8);
}

TEST_F(TwoHosts, ExtendedSendsArePostedAllOrNone) {
  run(
      [](int socket) {
        Program program(socket, IBV_QPT_RC, false);
        ibv_qp_ex* qp = with_operations(program, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
        CHILD_CHECK(qp != nullptr);
        program.connect();
        program.meet();

        ibv_wr_start(qp);
        for (std::uint64_t id = 0; id < 5; ++id) {  // one more than the queue holds
          add_send(program, qp, id, 0);
        }
        CHILD_CHECK(ibv_wr_complete(qp) == ENOMEM);

        ibv_wr_start(qp);
        add_send(program, qp, 7, 0);
        ibv_wr_abort(qp);

        program.buffer[16] = 0x5A;
        const std::vector<std::uint8_t> text{'i', 'n', 'l', 'i', 'n', 'e'};
        ibv_wr_start(qp);
        add_send(program, qp, 10, 16);
        qp->wr_id = 11;
        ibv_wr_rdma_write(qp, program.peer.rkey, program.peer.address + 512);
        ibv_wr_set_inline_data(qp, const_cast<std::uint8_t*>(text.data()), text.size());
        CHILD_CHECK(ibv_wr_complete(qp) == 0);
        CHILD_CHECK(program.wait().wr_id == 10);
        const ibv_wc wrote = program.wait();
        CHILD_CHECK(wrote.wr_id == 11 && wrote.status == IBV_WC_SUCCESS &&
                    wrote.opcode == IBV_WC_RDMA_WRITE);
        program.meet();
      },
      [](int socket) {
        Program program(socket, IBV_QPT_RC, false);
        program.post_recv(1, 0, 8);
        program.post_recv(2, 64, 8);
        program.connect();
        program.meet();
        CHILD_CHECK(program.wait().wr_id == 1);
        program.meet();
        CHILD_CHECK(program.buffer[0] == 0x5A);
        CHILD_CHECK(program.buffer[512] == 'i' && program.buffer[517] == 'e');
        ibv_wc wc{};
        CHILD_CHECK(ibv_poll_cq(program.cq, 1, &wc) == 0);  // nothing of what was refused
      });
}

TEST_F(TwoHosts, OnlyWhatAQpWasMadeForIsThere) {
  run(
      [](int socket) {
        Program program(socket, IBV_QPT_RC, false);
        CHILD_CHECK(ibv_qp_to_qp_ex(program.qp) == nullptr);
        ibv_qp_ex* qp = with_operations(program, IBV_QP_EX_WITH_SEND);
        CHILD_CHECK(qp->wr_send != nullptr && qp->wr_rdma_write == nullptr);
        ibv_qp_init_attr_ex init{};
        init.send_cq = program.cq;
        init.recv_cq = program.cq;
        init.qp_type = IBV_QPT_UD;
        init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.pd = program.pd;
        init.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
        CHILD_CHECK(ibv_create_qp_ex(program.context, &init) == nullptr && errno == EINVAL);
        init.send_ops_flags = IBV_QP_EX_WITH_TSO;
        CHILD_CHECK(ibv_create_qp_ex(program.context, &init) == nullptr && errno == EOPNOTSUPP);
      },
      [](int) {});
}

TEST_F(TwoHosts, ExtendedCompletionsTellWhatWasAskedFor) {
  const auto program_body = [](int socket) {
    Program program(socket, IBV_QPT_RC, false);
    program.destroy_qp();
    ibv_cq_init_attr_ex init{};
    init.cqe = 16;
    init.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM |
                    static_cast<std::uint64_t>(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
    ibv_cq_ex* cq = ibv_create_cq_ex(program.context, &init);
    CHILD_CHECK(cq != nullptr && cq->read_imm_data == nullptr);
    ibv_qp_init_attr qp_init{};
    qp_init.send_cq = ibv_cq_ex_to_cq(cq);
    qp_init.recv_cq = ibv_cq_ex_to_cq(cq);
    qp_init.cap = {8, 8, 1, 1, 0};
    qp_init.qp_type = IBV_QPT_RC;
    program.qp = ibv_create_qp(program.pd, &qp_init);
    CHILD_CHECK(program.qp != nullptr);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    CHILD_CHECK(
        ibv_modify_qp(program.qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    ibv_poll_cq_attr poll{};
    CHILD_CHECK(ibv_start_poll(cq, &poll) == ENOENT);
    program.post_recv(1, 0, 64);
    program.post_recv(2, 64, 64);
    program.connect();
    ibv_values_ex before{IBV_VALUES_MASK_RAW_CLOCK, {}};
    CHILD_CHECK(ibv_query_rt_values_ex(program.context, &before) == 0);
    program.meet();
    program.post(IBV_WR_SEND, 10, 128, 24);
    program.post(IBV_WR_SEND, 11, 128, 32);

    // Two sends and two receives, in any mixture.
    std::uint32_t received = 0;
    std::uint64_t last = static_cast<std::uint64_t>(before.raw_clock.tv_nsec);
    for (int seen = 0; seen < 4;) {
      if (ibv_start_poll(cq, &poll) != 0) {
        continue;
      }
      do {
        CHILD_CHECK(cq->status == IBV_WC_SUCCESS);
        CHILD_CHECK(ibv_wc_read_qp_num(cq) == program.qp->qp_num);
        CHILD_CHECK(ibv_wc_read_completion_ts(cq) >= last);
        last = ibv_wc_read_completion_ts(cq);
        if (ibv_wc_read_opcode(cq) == IBV_WC_RECV) {
          received += ibv_wc_read_byte_len(cq);
        }
        ++seen;
      } while (ibv_next_poll(cq) == 0);
      ibv_end_poll(cq);
    }
    CHILD_CHECK(received == 24 + 32);
    program.meet();
    program.destroy_qp();
    CHILD_CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
  };
  run(program_body, program_body);
}

TEST_F(TwoHosts, AParentDomainIsItsProtectionDomain) {
  run(
      [](int socket) {
        Program program(socket, IBV_QPT_RC, false);
        ibv_td_init_attr td_init{};
        ibv_td* td = ibv_alloc_td(program.context, &td_init);
        CHILD_CHECK(td != nullptr);
        ibv_parent_domain_init_attr init{};
        init.pd = ibv_alloc_pd(program.context);
        init.td = td;
        ibv_pd* parent = ibv_alloc_parent_domain(program.context, &init);
        CHILD_CHECK(parent != nullptr);
        CHILD_CHECK(ibv_dealloc_pd(init.pd) == EBUSY);
        CHILD_CHECK(ibv_dealloc_td(td) == EBUSY);
        ibv_mr* mr = ibv_reg_mr(parent, program.buffer.data(), 64, 0);
        CHILD_CHECK(mr != nullptr && ibv_dealloc_pd(parent) == EBUSY);
        CHILD_CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(parent) == 0);
        CHILD_CHECK(ibv_dealloc_td(td) == 0 && ibv_dealloc_pd(init.pd) == 0);
      },
      [](int) {});
}

}  // namespace
}  // namespace softhca::test
