// SPDX-License-Identifier: BSD-3-Clause
// Two processes on two emulated hosts, using the verbs as any program does.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "softhca/fabric/static_fabric.hpp"
#include "softhca/hca/faults.hpp"
#include "softhca/temp_dir.hpp"

namespace softhca::test {

/// A check in a child process, where gtest cannot be used: says what failed and ends the child.
#define CHILD_CHECK(condition)                                                                 \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      std::fprintf(stderr, "%s:%d: not true: %s (errno %s)\n", __FILE__, __LINE__, #condition, \
                   std::strerror(errno));                                                      \
      ::_exit(1);                                                                              \
    }                                                                                          \
  } while (false)

/// What two ends tell each other before they connect.
struct Card {
  std::uint32_t qpn;
  std::uint32_t rkey;
  std::uint64_t address;
  std::uint16_t lid;
};

/// One process's view: a device, a QP with its CQ, a buffer.
class Program {
 public:
  /// Receives from an SRQ of its own with so many places, if not 0.
  Program(int socket, ibv_qp_type type, bool with_channel, std::uint32_t srq_places = 0)
      : socket_(socket) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    CHILD_CHECK(list != nullptr && count == 1);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    CHILD_CHECK(context != nullptr);
    CHILD_CHECK(ibv_query_port(context, 1, &port) == 0);
    pd = ibv_alloc_pd(context);
    channel = with_channel ? ibv_create_comp_channel(context) : nullptr;
    cq = ibv_create_cq(context, 32, this, channel, 0);
    CHILD_CHECK(cq != nullptr);
    mr = ibv_reg_mr(pd, buffer.data(), buffer.size(),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHILD_CHECK(mr != nullptr);
    if (srq_places != 0) {
      ibv_srq_init_attr srq_init{nullptr, {srq_places, 1, 0}};
      srq = ibv_create_srq(pd, &srq_init);
      CHILD_CHECK(srq != nullptr);
    }
    ibv_qp_init_attr init{};
    init.send_cq = cq;
    init.recv_cq = cq;
    init.srq = srq;
    init.cap = {8, 8, 1, 1, 0};
    init.qp_type = type;
    qp = ibv_create_qp(pd, &init);
    CHILD_CHECK(qp != nullptr);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    CHILD_CHECK(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  }

  /// Exchanges cards and connects.
  void connect() {
    const Card mine{qp->qp_num, mr->rkey, reinterpret_cast<std::uint64_t>(buffer.data()), port.lid};
    tell(mine);
    peer = hear<Card>();
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qpn;
    attr.ah_attr.dlid = peer.lid;
    attr.ah_attr.port_num = 1;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    CHILD_CHECK(ibv_modify_qp(qp, &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                  IBV_QP_MIN_RNR_TIMER) == 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 10;
    attr.retry_cnt = 3;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    CHILD_CHECK(ibv_modify_qp(qp, &attr,
                              IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    CHILD_CHECK(qp->state == IBV_QPS_RTS);
  }

  void post_recv(std::uint64_t id, std::size_t offset, std::uint32_t length) {
    CHILD_CHECK(try_post_recv(id, offset, length) == 0);
  }

  int try_post_recv(std::uint64_t id, std::size_t offset, std::uint32_t length) {
    ibv_sge sge{address(offset), length, mr->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return srq != nullptr ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
  }

  void post(ibv_wr_opcode opcode, std::uint64_t id, std::size_t offset, std::uint32_t length,
            std::size_t remote_offset = 0) {
    ibv_sge sge{address(offset), length, mr->lkey};
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = 0xABCD;
    wr.wr.rdma.remote_addr = peer.address + remote_offset;
    wr.wr.rdma.rkey = peer.rkey;
    ibv_send_wr* bad = nullptr;
    CHILD_CHECK(ibv_post_send(qp, &wr, &bad) == 0);
  }

  /// The completion of a given request. Nothing orders a queue pair's sends and receives in a
  /// completion queue that they share, so others that come before it are kept for later.
  ibv_wc wait_for(std::uint64_t id) {
    for (auto kept = early_.begin(); kept != early_.end(); ++kept) {
      if (kept->wr_id == id) {
        const ibv_wc wc = *kept;
        early_.erase(kept);
        return wc;
      }
    }
    ibv_wc wc = wait();
    while (wc.wr_id != id) {
      early_.push_back(wc);
      wc = wait();
    }
    return wc;
  }

  ibv_wc wait() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    ibv_wc wc{};
    int found = 0;
    while ((found = ibv_poll_cq(cq, 1, &wc)) == 0 && std::chrono::steady_clock::now() < deadline) {
    }
    CHILD_CHECK(found == 1);
    return wc;
  }

  template <typename T>
  void tell(const T& value) {
    CHILD_CHECK(::write(socket_, &value, sizeof value) == static_cast<ssize_t>(sizeof value));
  }
  template <typename T>
  T hear() {
    T value{};
    CHILD_CHECK(::read(socket_, &value, sizeof value) == static_cast<ssize_t>(sizeof value));
    return value;
  }
  /// Returns when the other end has come here too.
  void meet() {
    tell('m');
    CHILD_CHECK(hear<char>() == 'm');
  }

  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    destroy_qp();
    CHILD_CHECK(srq == nullptr || ibv_destroy_srq(srq) == 0);
    CHILD_CHECK(cq == nullptr || ibv_destroy_cq(cq) == 0);
    CHILD_CHECK(ibv_dereg_mr(mr) == 0);
    CHILD_CHECK(ibv_dealloc_pd(pd) == 0);
    CHILD_CHECK(channel == nullptr || ibv_destroy_comp_channel(channel) == 0);
    CHILD_CHECK(ibv_close_device(context) == 0);
  }

  void destroy_qp() {
    CHILD_CHECK(qp == nullptr || ibv_destroy_qp(qp) == 0);
    qp = nullptr;
  }

  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(buffer.data()) + offset;
  }

  ibv_context* context = nullptr;
  ibv_port_attr port{};
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;
  Card peer{};
  std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(1 << 20);

 private:
  int socket_;
  std::vector<ibv_wc> early_;
};

/// Fixture: the fabric lives in the test's process, the programs in children of it.
/// SOFTHCA_TEST_ASYNC=SEED runs it in the asynchronous mode.
class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    fabric_ = make_star_fabric(dir_.path(), 2);
    ASSERT_NE(fabric_, nullptr);
    if (const char* seed = std::getenv("SOFTHCA_TEST_ASYNC")) {
      hca::Faults::attach(dir_.path())
          ->set_asynchrony({true, 200, std::strtoull(seed, nullptr, 0)});
    }
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets_.data()), 0);
    for (const int end : sockets_) {
      const timeval patience{20, 0};
      ASSERT_EQ(::setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    }
  }
  void TearDown() override {
    fabric_.reset();
    ::close(sockets_[0]);
    ::close(sockets_[1]);
  }

  /// Starts `body(socket)` on a host. It ends by returning.
  template <typename Body>
  pid_t start(const char* host, int end, Body&& body) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(sockets_[static_cast<std::size_t>(1 - end)]);
      ::setenv("SOFTHCA_DIR", dir_.path(), 1);
      ::setenv("SOFTHCA_HOST", host, 1);
      body(sockets_[static_cast<std::size_t>(end)]);
      std::fflush(nullptr);
      std::exit(0);
    }
    return pid;
  }

  static int finish(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  template <typename A, typename B>
  void run(A&& on_h1, B&& on_h2) {
    const pid_t a = start("H1", 0, on_h1);
    const pid_t b = start("H2", 1, on_h2);
    EXPECT_EQ(finish(a), 0) << "on H1";
    EXPECT_EQ(finish(b), 0) << "on H2";
  }

  softhca_test::TempDir dir_;
  std::unique_ptr<StaticFabric> fabric_;
  std::array<int, 2> sockets_{};
};

}  // namespace softhca::test
