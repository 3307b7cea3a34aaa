// SPDX-License-Identifier: BSD-3-Clause
//
// The floor under any connection manager: what two processes must do at least to get an RC queue
// pair each to RTS when everything else is known beforehand. Per connection, at each end one
// ibv_create_qp and three ibv_modify_qp, and three UD datagrams of 256 bytes between them. UD queue
// pairs, address handles, path attributes and receive buffers exist before the clock starts;
// completion queues are polled without sleeping; teardown is not timed.
//
// Run on two ranks: floor [CONNECTIONS]. Rank 0 prints one line of JSON with the time from the
// first call to RTS at the active end, in microseconds.
#include <infiniband/verbs.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "figures.hpp"

namespace {

constexpr std::size_t kDatagram = 256;
constexpr std::size_t kGrh = 40;
constexpr std::uint32_t kQKey = 0x11111111;
constexpr int kReceives = 64;
constexpr int kWarmUp = 10;
constexpr std::uint8_t kPort = 1;

[[noreturn]] void die(const char* step) {
  std::fprintf(stderr, "floor: %s failed: %s\n", step, std::strerror(errno));
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void require(bool condition, const char* step) {
  if (!condition) {
    die(step);
  }
}

/// What a rank tells the other beforehand.
struct Identity {
  std::uint32_t ud_qpn;
  std::uint16_t lid;
  std::uint8_t mtu;
};

class Endpoint {
 public:
  Endpoint() {
    int count = 0;
    ibv_device** devices = ibv_get_device_list(&count);
    require(devices != nullptr && count > 0, "finding a device");
    context_ = ibv_open_device(devices[0]);
    require(context_ != nullptr, "ibv_open_device");
    ibv_free_device_list(devices);
    require(ibv_query_port(context_, kPort, &port_) == 0, "ibv_query_port");
    pd_ = ibv_alloc_pd(context_);
    require(pd_ != nullptr, "ibv_alloc_pd");
    ud_cq_ = ibv_create_cq(context_, 2 * kReceives, nullptr, nullptr, 0);
    rc_cq_ = ibv_create_cq(context_, 1024, nullptr, nullptr, 0);
    require(ud_cq_ != nullptr && rc_cq_ != nullptr, "ibv_create_cq");
    buffer_.resize((kReceives + 1) * (kGrh + kDatagram));
    mr_ = ibv_reg_mr(pd_, buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE);
    require(mr_ != nullptr, "ibv_reg_mr");
    open_ud();
  }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] Identity identity() const {
    return {ud_->qp_num, port_.lid, static_cast<std::uint8_t>(port_.active_mtu)};
  }

  void meet(const Identity& peer) {
    peer_ = peer;
    ibv_ah_attr attributes{};
    attributes.dlid = peer.lid;
    attributes.port_num = kPort;
    ah_ = ibv_create_ah(pd_, &attributes);
    require(ah_ != nullptr, "ibv_create_ah");
  }

  void send(std::uint32_t value) {
    std::uint8_t* at = buffer_.data() + kReceives * (kGrh + kDatagram);
    std::memcpy(at, &value, sizeof value);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), kDatagram, mr_->lkey};
    ibv_send_wr wr{};
    wr.wr_id = kReceives;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = ah_;
    wr.wr.ud.remote_qpn = peer_.ud_qpn;
    wr.wr.ud.remote_qkey = kQKey;
    ibv_send_wr* bad = nullptr;
    require(ibv_post_send(ud_, &wr, &bad) == 0, "ibv_post_send");
  }

  std::uint32_t receive() {
    for (;;) {
      ibv_wc wc{};
      const int count = ibv_poll_cq(ud_cq_, 1, &wc);
      require(count >= 0, "ibv_poll_cq");
      if (count == 0) {
        continue;
      }
      require(wc.status == IBV_WC_SUCCESS, "a UD work request");
      if ((wc.opcode & IBV_WC_RECV) == 0) {
        continue;
      }
      std::uint32_t value = 0;
      const auto slot = static_cast<std::size_t>(wc.wr_id);
      std::memcpy(&value, buffer_.data() + slot * (kGrh + kDatagram) + kGrh, sizeof value);
      post_receive(slot);
      return value;
    }
  }

  ibv_qp* create() {
    ibv_qp_init_attr init{};
    init.send_cq = rc_cq_;
    init.recv_cq = rc_cq_;
    init.cap = {64, 64, 1, 1, 64};
    init.qp_type = IBV_QPT_RC;
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    require(qp != nullptr, "ibv_create_qp");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = kPort;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    require(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
        "ibv_modify_qp to INIT");
    return qp;
  }

  void connect(ibv_qp* qp, std::uint32_t remote_qpn) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = static_cast<ibv_mtu>(std::min<int>(port_.active_mtu, peer_.mtu));
    attr.dest_qp_num = remote_qpn;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.dlid = peer_.lid;
    attr.ah_attr.port_num = kPort;
    require(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        "ibv_modify_qp to RTR");
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 18;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    require(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
            "ibv_modify_qp to RTS");
  }

 private:
  void open_ud() {
    ibv_qp_init_attr init{};
    init.send_cq = ud_cq_;
    init.recv_cq = ud_cq_;
    init.cap = {16, kReceives, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    ud_ = ibv_create_qp(pd_, &init);
    require(ud_ != nullptr, "ibv_create_qp (UD)");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = kPort;
    attr.qkey = kQKey;
    require(ibv_modify_qp(ud_, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0,
            "ibv_modify_qp (UD)");
    for (std::size_t slot = 0; slot < kReceives; ++slot) {
      post_receive(slot);
    }
    attr = {};
    attr.qp_state = IBV_QPS_RTR;
    require(ibv_modify_qp(ud_, &attr, IBV_QP_STATE) == 0, "ibv_modify_qp (UD)");
    attr.qp_state = IBV_QPS_RTS;
    require(ibv_modify_qp(ud_, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "ibv_modify_qp (UD)");
  }

  void post_receive(std::size_t slot) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(buffer_.data() + slot * (kGrh + kDatagram)),
                kGrh + kDatagram, mr_->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    require(ibv_post_recv(ud_, &wr, &bad) == 0, "ibv_post_recv");
  }

  ibv_context* context_ = nullptr;
  ibv_port_attr port_{};
  ibv_pd* pd_ = nullptr;
  ibv_cq* ud_cq_ = nullptr;
  ibv_cq* rc_cq_ = nullptr;
  ibv_qp* ud_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_ah* ah_ = nullptr;
  Identity peer_{};
  std::vector<std::uint8_t> buffer_;
};

/// The active end of one connection; returns its time to RTS.
double connect_once(Endpoint& endpoint, std::vector<ibv_qp*>& made) {
  const auto start = bench::Clock::now();
  ibv_qp* qp = endpoint.create();
  endpoint.send(qp->qp_num);
  endpoint.connect(qp, endpoint.receive());
  endpoint.send(qp->qp_num);
  const double elapsed = bench::microseconds_since(start);
  made.push_back(qp);
  return elapsed;
}

void accept_once(Endpoint& endpoint, std::vector<ibv_qp*>& made) {
  const std::uint32_t remote = endpoint.receive();
  ibv_qp* qp = endpoint.create();
  endpoint.connect(qp, remote);
  endpoint.send(qp->qp_num);
  endpoint.receive();
  made.push_back(qp);
}

void print_report(std::vector<double>& times) {
  std::printf("{\"stack\": \"floor\", \"connections\": %zu, \"p50_us\": %.2f, \"p99_us\": %.2f}\n",
              times.size(), bench::quantile(times, 0.5), bench::quantile(times, 0.99));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int connections = argc > 1 ? std::atoi(argv[1]) : 200;
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2 || connections < 1) {
    std::fprintf(stderr, "usage: mpirun -n 2 floor [CONNECTIONS >= 1]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Endpoint endpoint;
  Identity mine = endpoint.identity();
  std::array<Identity, 2> all{};
  MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
  endpoint.meet(all[rank == 0 ? 1 : 0]);
  MPI_Barrier(MPI_COMM_WORLD);

  std::vector<double> times;
  for (int i = 0; i < connections + kWarmUp; ++i) {
    std::vector<ibv_qp*> made;
    if (rank == 0) {
      const double elapsed = connect_once(endpoint, made);
      if (i >= kWarmUp) {
        times.push_back(elapsed);
      }
    } else {
      accept_once(endpoint, made);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (ibv_qp* qp : made) {
      ibv_destroy_qp(qp);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank == 0) {
    print_report(times);
  }
  MPI_Finalize();
  return 0;
}
