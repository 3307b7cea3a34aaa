// SPDX-License-Identifier: BSD-3-Clause
//
// Half a round trip of RC sends by the verbs alone: 8 bytes inline, one receive posted ahead, both
// ends poll. MPI only tells the two ranks of each other.
//
// Run on two ranks: rc_pair [ROUNDS]. Rank 0 prints one line of JSON with the time of half a round
// trip, in microseconds. Both ranks check what arrived.
#include <infiniband/verbs.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rounds.hpp"

namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::size_t kReceives = 2;  // the one that is used, and the next one

void require(bool condition, const char* step) {
  if (!condition) {
    std::fprintf(stderr, "rc_pair: %s failed: %s\n", step, std::strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

struct Card {
  std::uint32_t qpn;
  std::uint16_t lid;
  std::uint16_t mtu;
};

class Endpoint {
 public:
  Endpoint() {
    int count = 0;
    ibv_device** devices = ibv_get_device_list(&count);
    require(devices != nullptr && count > 0, "finding a device");
    ibv_context* context = ibv_open_device(devices[0]);
    require(context != nullptr, "ibv_open_device");
    ibv_free_device_list(devices);
    require(ibv_query_port(context, kPort, &port_) == 0, "ibv_query_port");
    ibv_pd* pd = ibv_alloc_pd(context);
    require(pd != nullptr, "ibv_alloc_pd");
    mr_ = ibv_reg_mr(pd, in_.data(), sizeof in_, IBV_ACCESS_LOCAL_WRITE);
    send_cq_ = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    recv_cq_ = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    require(mr_ != nullptr && send_cq_ != nullptr && recv_cq_ != nullptr, "setting up");
    ibv_qp_init_attr init{};
    init.send_cq = send_cq_;
    init.recv_cq = recv_cq_;
    init.cap = {16, kReceives, 1, 1, sizeof(std::uint64_t)};
    init.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd, &init);
    require(qp_ != nullptr, "ibv_create_qp");
  }

  [[nodiscard]] Card card() const {
    return {qp_->qp_num, port_.lid, static_cast<std::uint16_t>(port_.active_mtu)};
  }

  void connect(const Card& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = kPort;
    move(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
    for (std::size_t slot = 0; slot < kReceives; ++slot) {
      post_receive(slot);
    }
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = static_cast<ibv_mtu>(std::min<int>(port_.active_mtu, peer.mtu));
    attr.dest_qp_num = peer.qpn;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    attr.ah_attr.dlid = peer.lid;
    attr.ah_attr.port_num = kPort;
    move(attr,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 18;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    move(attr,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
  }

  void send(std::uint64_t value) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(&value), sizeof value, 0};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    require(ibv_post_send(qp_, &wr, &bad) == 0, "ibv_post_send");
  }

  std::uint64_t receive() {
    const std::size_t slot = await(recv_cq_);
    const std::uint64_t value = in_[slot];
    post_receive(slot);
    return value;
  }

  void sent() { await(send_cq_); }

 private:
  void move(ibv_qp_attr& attr, int mask, const char* state) {
    const int error = ibv_modify_qp(qp_, &attr, mask);
    errno = error;
    require(error == 0, state);
  }

  void post_receive(std::size_t slot) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(&in_[slot]), sizeof in_[slot], mr_->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    require(ibv_post_recv(qp_, &wr, &bad) == 0, "ibv_post_recv");
  }

  static std::size_t await(ibv_cq* cq) {
    ibv_wc wc{};
    int found = 0;
    while ((found = ibv_poll_cq(cq, 1, &wc)) == 0) {
    }
    require(found == 1 && wc.status == IBV_WC_SUCCESS, "a work request");
    return static_cast<std::size_t>(wc.wr_id);
  }

  std::array<std::uint64_t, kReceives> in_{};
  ibv_port_attr port_{};
  ibv_mr* mr_ = nullptr;
  ibv_cq* send_cq_ = nullptr;
  ibv_cq* recv_cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

/// One round trip; rank 1 answers with what it got.
void round_trip(Endpoint& endpoint, bool first, std::uint64_t value) {
  if (first) {
    endpoint.send(value);
    require(endpoint.receive() == value, "comparing what came back");
    endpoint.sent();
  } else {
    endpoint.send(endpoint.receive());
    endpoint.sent();
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 4000;
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2 || rounds < 1) {
    std::fprintf(stderr, "usage: mpirun -n 2 rc_pair [ROUNDS >= 1]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Endpoint endpoint;
  Card mine = endpoint.card();
  std::array<Card, 2> all{};
  MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
  endpoint.connect(all[rank == 0 ? 1 : 0]);
  MPI_Barrier(MPI_COMM_WORLD);

  std::vector<double> times = bench::half_round_trips(rank, rounds, [&](int round) {
    round_trip(endpoint, rank == 0, static_cast<std::uint64_t>(round) << 32 | 0x5EED);
  });
  if (rank == 0) {
    std::printf("{\"stack\": \"softhca\", \"bytes\": 8, \"p50_us\": %.3f, \"p99_us\": %.3f}\n",
                bench::quantile(times, 0.5), bench::quantile(times, 0.99));
  }
  MPI_Finalize();
  return 0;
}
