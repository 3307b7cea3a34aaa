// SPDX-License-Identifier: BSD-3-Clause
// Two emulated hosts in one process, on a fabric without ibsim: both ends of every exchange can be
// looked at.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "softhca/fabric/static_fabric.hpp"
#include "softhca/hca/completion_queue.hpp"
#include "softhca/hca/event_channel.hpp"
#include "softhca/hca/memory_region.hpp"
#include "softhca/hca/qp.hpp"
#include "softhca/hca/runtime.hpp"
#include "softhca/hca/shared_receive_queue.hpp"
#include "softhca/temp_dir.hpp"

namespace softhca::test {

constexpr std::uint32_t kPd = 1;

/// Attributes for the three moves of a QP; tests change what they are about.
struct Moves {
  ibv_qp_attr init{};
  ibv_qp_attr rtr{};
  ibv_qp_attr rts{};

  Moves() {
    init.qp_state = IBV_QPS_INIT;
    init.port_num = 1;
    init.qkey = 0x11111111;
    init.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    rtr.qp_state = IBV_QPS_RTR;
    rtr.path_mtu = IBV_MTU_2048;
    rtr.ah_attr.port_num = 1;
    rtr.max_dest_rd_atomic = 4;
    rtr.min_rnr_timer = 1;  // 10 us
    rts.qp_state = IBV_QPS_RTS;
    rts.timeout = 8;  // about 1 ms
    rts.retry_cnt = 2;
    rts.rnr_retry = 7;
    rts.max_rd_atomic = 4;
  }
};

constexpr int kInitRc = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kInitUd = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int kRtrUc = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kRtrRc = kRtrUc | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsRc = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kRtsUd = IBV_QP_STATE | IBV_QP_SQ_PSN;

/// A QP with its CQ and a registered buffer.
struct End {
  hca::Runtime* runtime = nullptr;
  std::unique_ptr<hca::EventChannel> async;
  std::unique_ptr<hca::CompletionQueue> cq;
  std::unique_ptr<hca::SharedReceiveQueue> srq;
  std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(1 << 16);
  std::unique_ptr<hca::MemoryRegion> region;
  std::vector<PortIndex> ports;
  std::unique_ptr<hca::Qp> qp;
  std::uint16_t lid = 0;
  Moves moves;

  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uint64_t>(buffer.data()) + offset;
  }

  ibv_sge sge(std::size_t offset, std::uint32_t length) const {
    return {address(offset), length, region->key()};
  }

  int post_recv(std::uint64_t id, std::size_t offset, std::uint32_t length) const {
    ibv_sge list = sge(offset, length);
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &list;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return srq ? srq->post(&wr, &bad) : qp->post_recv(&wr, &bad);
  }

  int post(ibv_send_wr wr, std::size_t offset, std::uint32_t length) const {
    ibv_sge list = sge(offset, length);
    wr.sg_list = &list;
    wr.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    return qp->post_send(&wr, &bad);
  }

  int post_send(std::uint64_t id, std::size_t offset, std::uint32_t length,
                unsigned flags = IBV_SEND_SIGNALED) const {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    return post(wr, offset, length);
  }

  int post_rdma(std::uint64_t id, ibv_wr_opcode opcode, const End& peer, std::size_t peer_offset,
                std::size_t offset, std::uint32_t length) const {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = peer.address(peer_offset);
    wr.wr.rdma.rkey = peer.region->key();
    return post(wr, offset, length);
  }

  /// The next completion within ten seconds.
  [[nodiscard]] std::optional<ibv_wc> wait() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    ibv_wc wc{};
    while (std::chrono::steady_clock::now() < deadline) {
      if (cq->consumer().poll(1, &wc) == 1) {
        return wc;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] bool nothing() const {
    ibv_wc wc{};
    return cq->consumer().poll(1, &wc) == 0;
  }

  /// Moves to RTS, as a peer of `other` if it is RC or UC.
  int init() { return qp->modify(moves.init, qp->init().type == IBV_QPT_UD ? kInitUd : kInitRc); }
  int rtr(const End& other) { return rtr(other.lid, other.qp->number()); }
  int rtr(std::uint16_t dlid, std::uint32_t qpn) {
    moves.rtr.ah_attr.dlid = dlid;
    moves.rtr.dest_qp_num = qpn;
    switch (qp->init().type) {
      case IBV_QPT_RC:
        return qp->modify(moves.rtr, kRtrRc);
      case IBV_QPT_UC:
        return qp->modify(moves.rtr, kRtrUc);
      default:
        return qp->modify(moves.rtr, IBV_QP_STATE);
    }
  }
  int rts() { return qp->modify(moves.rts, qp->init().type == IBV_QPT_RC ? kRtsRc : kRtsUd); }

  int move(ibv_qp_state state) const {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return qp->modify(attr, IBV_QP_STATE);
  }

  /// The next asynchronous event, if there is one now.
  [[nodiscard]] std::optional<ibv_event_type> event() const {
    const auto record = async->read();
    return record ? std::optional(static_cast<ibv_event_type>(record->type)) : std::nullopt;
  }
};

/// The next asynchronous event within ten seconds.
inline std::optional<ibv_event_type> wait_event(const End& end) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::optional<ibv_event_type> event;
  while (!(event = end.event()) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return event;
}

/// Fixture: hosts H1 and H2 on one switch. SOFTHCA_TEST_ASYNC=SEED runs it in the asynchronous
/// mode.
class Rig : public ::testing::Test {
 protected:
  void SetUp() override {
    fabric_ = make_star_fabric(dir_.path(), 3);
    ASSERT_NE(fabric_, nullptr) << std::strerror(errno);
    h1_ = hca::Runtime::open(dir_.path(), "H1");
    h2_ = hca::Runtime::open(dir_.path(), "H2");
    ASSERT_NE(h1_, nullptr) << std::strerror(errno);
    ASSERT_NE(h2_, nullptr) << std::strerror(errno);
    if (const char* seed = std::getenv("SOFTHCA_TEST_ASYNC")) {
      h1_->faults().set_asynchrony({true, 200, std::strtoull(seed, nullptr, 0)});
    }
  }

  struct Options {
    ibv_qp_type type = IBV_QPT_RC;
    std::uint32_t cqe = 64;
    std::uint32_t send_wr = 16;
    std::uint32_t recv_wr = 16;
    bool srq = false;
    bool signal_all = false;
    bool block_self_multicast = false;
  };

  static std::unique_ptr<End> make_end(hca::Runtime& runtime, const Options& options) {
    auto end = std::make_unique<End>();
    end->runtime = &runtime;
    const HcaInfo info = runtime.view().hcas_of(runtime.host()).at(0);
    const PortAttr port = runtime.view().port(info.ports[0]);
    end->lid = port.lid;
    end->async =
        hca::EventChannel::create(runtime.registry(), runtime.channel_slots(), runtime.token(),
                                  hca::ChannelKind::Async, port.hca_index);
    ::fcntl(end->async->fd(), F_SETFL, O_NONBLOCK);
    int error = 0;
    end->cq = hca::CompletionQueue::create(runtime, options.cqe, {hca::kNone, 0},
                                           end->async->name(), error);
    hca::RegionSpec spec;
    spec.pd = kPd;
    spec.address = end->address();
    spec.iova = spec.address;
    spec.length = end->buffer.size();
    spec.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                  IBV_ACCESS_REMOTE_ATOMIC;
    end->region = hca::MemoryRegion::create(runtime, spec, error);
    if (options.srq) {
      ibv_srq_attr attr{};
      attr.max_wr = options.recv_wr;
      attr.max_sge = 1;
      end->srq = hca::SharedReceiveQueue::create(runtime, kPd, attr, end->async->name(), error);
    }
    hca::QpInit init;
    init.hca = port.hca_index;
    end->ports = info.ports;
    init.ports = end->ports;
    init.pd = kPd;
    init.type = options.type;
    init.send_cq = end->cq->slot();
    init.recv_cq = end->cq->slot();
    init.srq = end->srq ? end->srq->slot() : hca::kNone;
    init.send_consumer = &end->cq->consumer();
    init.recv_consumer = &end->cq->consumer();
    init.cap = {options.send_wr, options.recv_wr, 2, 2, 128};
    init.signal_all = options.signal_all;
    init.block_self_multicast = options.block_self_multicast;
    init.async = end->async->name();
    end->qp = hca::Qp::create(runtime, init, error);
    EXPECT_NE(end->qp, nullptr) << std::strerror(error);
    return end;
  }

  std::unique_ptr<End> on_h1(const Options& options) const { return make_end(*h1_, options); }
  std::unique_ptr<End> on_h2(const Options& options) const { return make_end(*h2_, options); }

  /// Both ends at RTS and connected to each other (or two UD QPs at RTS).
  static void connect(End& a, End& b) {
    ASSERT_EQ(a.init(), 0);
    ASSERT_EQ(b.init(), 0);
    ASSERT_EQ(a.rtr(b), 0);
    ASSERT_EQ(b.rtr(a), 0);
    ASSERT_EQ(a.rts(), 0);
    ASSERT_EQ(b.rts(), 0);
  }

  [[nodiscard]] std::uint64_t counted(Counter counter) const {
    return h1_->counters().total(counter);
  }

  softhca_test::TempDir dir_;
  std::unique_ptr<StaticFabric> fabric_;
  std::unique_ptr<hca::Runtime> h1_;
  std::unique_ptr<hca::Runtime> h2_;
};

}  // namespace softhca::test
