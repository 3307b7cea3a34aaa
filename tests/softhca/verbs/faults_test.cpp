// SPDX-License-Identifier: BSD-3-Clause
// Calls that fail on demand, lowered limits, and the kernel's rule about Q_Keys, as programs see
// them.
#include <infiniband/verbs.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "softhca/verbs/two_hosts.hpp"

namespace softhca::test {
namespace {

hca::FaultRule call_fails(hca::Call call, int error) {
  hca::FaultRule rule;
  rule.kind = hca::RuleKind::Call;
  rule.what = static_cast<std::uint32_t>(call);
  rule.code = static_cast<std::uint32_t>(error);
  return rule;
}

TEST_F(TwoHosts, CallsFailAsAskedFor) {
  const auto faults = hca::Faults::attach(dir_.path());
  const auto body = [&](int socket) {
    Program program(socket, IBV_QPT_RC, false);
    hca::FaultRule rule = call_fails(hca::Call::CreateQp, EAGAIN);
    rule.nth = 2;
    CHILD_CHECK(faults->add(rule));
    ibv_qp_init_attr init{};
    init.send_cq = program.cq;
    init.recv_cq = program.cq;
    init.cap = {1, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    ibv_qp* first = ibv_create_qp(program.pd, &init);
    CHILD_CHECK(first != nullptr);
    CHILD_CHECK(ibv_create_qp(program.pd, &init) == nullptr && errno == EAGAIN);
    CHILD_CHECK(ibv_destroy_qp(first) == 0);

    CHILD_CHECK(faults->add(call_fails(hca::Call::CreateCq, ENOMEM)));
    CHILD_CHECK(ibv_create_cq(program.context, 1, nullptr, nullptr, 0) == nullptr &&
                errno == ENOMEM);
    CHILD_CHECK(faults->add(call_fails(hca::Call::RegMr, ENOMEM)));
    CHILD_CHECK(ibv_reg_mr(program.pd, program.buffer.data(), 1, 0) == nullptr && errno == ENOMEM);

    rule = call_fails(hca::Call::ModifyQp, ENOMEM);
    rule.to_state = IBV_QPS_ERR;
    CHILD_CHECK(faults->add(rule));
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    CHILD_CHECK(ibv_modify_qp(program.qp, &attr, IBV_QP_STATE) == ENOMEM);
    CHILD_CHECK(program.qp->state == IBV_QPS_INIT);
    attr.qp_state = IBV_QPS_RESET;  // the rule is about another move
    CHILD_CHECK(ibv_modify_qp(program.qp, &attr, IBV_QP_STATE) == 0);
    faults->clear_rules();
  };
  const pid_t child = start("H1", 0, body);
  EXPECT_EQ(finish(child), 0);
}

TEST_F(TwoHosts, LoweredLimitsAreDeclaredAndKept) {
  const auto faults = hca::Faults::attach(dir_.path());
  hca::FaultRule rule;
  rule.kind = hca::RuleKind::Limit;
  rule.what = static_cast<std::uint32_t>(hca::Limit::Cqes);
  rule.value = 50;
  ASSERT_TRUE(faults->add(rule));
  const pid_t child = start("H1", 0, [](int socket) {
    Program program(socket, IBV_QPT_RC, false);
    ibv_device_attr attr{};
    CHILD_CHECK(ibv_query_device(program.context, &attr) == 0 && attr.max_cqe == 50);
    CHILD_CHECK(ibv_create_cq(program.context, 51, nullptr, nullptr, 0) == nullptr &&
                errno == EINVAL);
    CHILD_CHECK(ibv_resize_cq(program.cq, 51) == EINVAL);
    CHILD_CHECK(ibv_resize_cq(program.cq, 50) == 0);
  });
  EXPECT_EQ(finish(child), 0);
}

/// Gives up CAP_NET_RAW in this thread.
void drop_net_raw() {
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  std::array<__user_cap_data_struct, 2> data{};
  CHILD_CHECK(::syscall(SYS_capget, &header, data.data()) == 0);
  data[0].effective &= ~(1U << CAP_NET_RAW);
  CHILD_CHECK(::syscall(SYS_capset, &header, data.data()) == 0);
}

TEST_F(TwoHosts, PrivilegedQkeysNeedPrivilegeWhereTheKernelSaysSo) {
  const auto faults = hca::Faults::attach(dir_.path());
  const pid_t child = start("H1", 0, [&](int socket) {
    drop_net_raw();
    Program program(socket, IBV_QPT_RC, false);
    ibv_qp_init_attr init{};
    init.send_cq = program.cq;
    init.recv_cq = program.cq;
    init.cap = {1, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    ibv_qp* qp = ibv_create_qp(program.pd, &init);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    const auto try_qkey = [&](std::uint32_t qkey) {
      attr.qkey = qkey;
      return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    };
    CHILD_CHECK(try_qkey(0x80010000) == 0);  // as kernels were before 2023
    faults->restrict_qkeys(true);
    CHILD_CHECK(try_qkey(0x80010000) == EPERM);
    CHILD_CHECK(try_qkey(0x11111111) == 0);
    CHILD_CHECK(ibv_destroy_qp(qp) == 0);
  });
  EXPECT_EQ(finish(child), 0);
}

}  // namespace
}  // namespace softhca::test
