// SPDX-License-Identifier: BSD-3-Clause
// Datagrams: GRH, keys, drops, multicast, faults.
#include <algorithm>

#include "softhca/hca/faults.hpp"
#include "softhca/hca/multicast.hpp"
#include "softhca/hca/rig.hpp"
#include "softhca/hca/send_request.hpp"

namespace softhca::test {
namespace {

constexpr std::uint32_t kQkey = 0x11111111;

class Ud : public Rig {
 protected:
  void SetUp() override {
    Rig::SetUp();
    Options options;
    options.type = IBV_QPT_UD;
    a_ = on_h1(options);
    b_ = on_h2(options);
    connect(*a_, *b_);
    handle_.av.pd = kPd;
    handle_.av.attr.port_num = 1;
    handle_.av.attr.dlid = b_->lid;
    handle_.av.attr.sl = 3;
  }

  int send(std::uint32_t length, std::uint32_t qkey = kQkey, ibv_wr_opcode opcode = IBV_WR_SEND) {
    ibv_send_wr wr{};
    wr.wr_id = next_id_++;
    wr.opcode = opcode;
    wr.imm_data = 77;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = &handle_.base;
    wr.wr.ud.remote_qpn = b_->qp->number();
    wr.wr.ud.remote_qkey = qkey;
    return a_->post(wr, 0, length);
  }

  std::unique_ptr<End> a_;
  std::unique_ptr<End> b_;
  hca::AddressHandle handle_;
  std::uint64_t next_id_ = 1;
};

TEST_F(Ud, WithoutGrhItsPlaceIsLeftAlone) {
  std::memset(b_->buffer.data(), 0xEE, 100);
  std::memcpy(a_->buffer.data(), "datagram", 8);
  ASSERT_EQ(b_->post_recv(5, 0, 100), 0);
  ASSERT_EQ(send(8, kQkey, IBV_WR_SEND_WITH_IMM), 0);
  const auto wc = b_->wait();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->wr_id, 5U);
  EXPECT_EQ(wc->byte_len, 48U);
  EXPECT_EQ(wc->wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(wc->imm_data, 77U);
  EXPECT_EQ(wc->src_qp, a_->qp->number());
  EXPECT_EQ(wc->slid, a_->lid);
  EXPECT_EQ(wc->sl, 3);
  EXPECT_EQ(b_->buffer[0], 0xEE);
  EXPECT_EQ(b_->buffer[39], 0xEE);
  EXPECT_EQ(std::memcmp(b_->buffer.data() + 40, "datagram", 8), 0);
  EXPECT_EQ(b_->buffer[48], 0xEE);
  EXPECT_EQ(a_->wait()->status, IBV_WC_SUCCESS);
}

TEST_F(Ud, GrhByteForByte) {
  const PortAttr from = h1_->view().port(h1_->view().hcas_of("H1")[0].ports[0]);
  handle_.av.attr.is_global = 1;
  handle_.av.attr.grh.traffic_class = 0xAB;
  handle_.av.attr.grh.flow_label = 0x12345;
  handle_.av.attr.grh.hop_limit = 9;
  const Gid to = h2_->view().port(h2_->view().hcas_of("H2")[0].ports[0]).gids[0];
  std::copy(to.begin(), to.end(), handle_.av.attr.grh.dgid.raw);
  ASSERT_EQ(b_->post_recv(5, 0, 100), 0);
  ASSERT_EQ(send(5), 0);
  const auto wc = b_->wait();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->wc_flags, static_cast<unsigned>(IBV_WC_GRH));
  const std::uint8_t* grh = b_->buffer.data();
  const std::uint8_t head[] = {0x6A, 0xB1, 0x23, 0x45, 0x00, 0x20, 0x1B, 0x09};
  EXPECT_EQ(std::memcmp(grh, head, sizeof head), 0);  // length 12 + 8 + 8 (5 padded) + 4
  EXPECT_EQ(std::memcmp(grh + 8, from.gids[0].data(), 16), 0);
  EXPECT_EQ(std::memcmp(grh + 24, to.data(), 16), 0);
  // To a GID that is none of the port's, of another subnet for one, nothing arrives.
  handle_.av.attr.grh.dgid.raw[7] ^= 1;
  ASSERT_EQ(b_->post_recv(6, 0, 100), 0);
  ASSERT_EQ(send(5), 0);
  EXPECT_TRUE(b_->nothing());
  EXPECT_EQ(counted(Counter::UdDroppedNoRoute), 1U);
}

TEST_F(Ud, DropsAreSilentAndCounted) {
  ASSERT_EQ(send(8), 0);  // no receive is posted
  EXPECT_EQ(counted(Counter::UdDroppedNoReceive), 1U);
  ASSERT_EQ(b_->post_recv(1, 0, 47), 0);
  ASSERT_EQ(send(8), 0);  // 48 bytes would be needed
  EXPECT_EQ(counted(Counter::UdDroppedNoReceive), 2U);
  ASSERT_EQ(send(4, kQkey + 1), 0);
  EXPECT_EQ(counted(Counter::UdDroppedKey), 1U);
  handle_.av.attr.dlid = 999;
  handle_.av.route.forget();
  ASSERT_EQ(send(4), 0);
  EXPECT_EQ(counted(Counter::UdDroppedNoRoute), 1U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(a_->wait()->status, IBV_WC_SUCCESS);
  }
  EXPECT_TRUE(b_->nothing());
  handle_.av.attr.dlid = b_->lid;
  handle_.av.route.forget();
  ASSERT_EQ(send(7), 0);  // the short receive is still there
  EXPECT_EQ(b_->wait()->byte_len, 47U);
}

TEST_F(Ud, AQkeyWithTheTopBitMeansTheSendersOwn) {
  ASSERT_EQ(b_->post_recv(1, 0, 100), 0);
  ASSERT_EQ(send(4, 0x80000000), 0);
  EXPECT_TRUE(b_->wait());
}

TEST_F(Ud, PartitionsAreKeptApart) {
  const PortIndex to = h2_->view().hcas_of("H2")[0].ports[0];
  ASSERT_EQ(b_->post_recv(1, 0, 100), 0);
  fabric_->model().ports[to].pkeys[0] = 0x8123;
  ASSERT_TRUE(fabric_->publish());
  ASSERT_EQ(send(4), 0);
  EXPECT_EQ(counted(Counter::UdDroppedKey), 1U);
  fabric_->model().ports[to].pkeys[0] = 0x7FFF;  // limited member: the sender is a full one
  ASSERT_TRUE(fabric_->publish());
  ASSERT_EQ(send(4), 0);
  EXPECT_TRUE(b_->wait());
}

TEST_F(Ud, LongerThanTheMtuIsALocalError) {
  const std::uint32_t mtu =
      128U << h1_->view().port(h1_->view().hcas_of("H1")[0].ports[0]).active_mtu;
  ASSERT_EQ(send(mtu + 1), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(a_->qp->state(), IBV_QPS_SQE);
  ASSERT_EQ(send(4), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(a_->move(IBV_QPS_RTS), 0);
  ASSERT_EQ(send(4), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_SUCCESS);
}

TEST_F(Ud, AnotherQpsNumberAtTheRightPortIsNotEnough) {
  Options rc;
  const auto other = on_h2(rc);
  ASSERT_EQ(b_->post_recv(1, 0, 100), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud.ah = &handle_.base;
  wr.wr.ud.remote_qkey = kQkey;
  wr.wr.ud.remote_qpn = other->qp->number();  // an RC QP
  ASSERT_EQ(a_->post(wr, 0, 4), 0);
  wr.wr.ud.remote_qpn = 0x7000;  // nobody
  ASSERT_EQ(a_->post(wr, 0, 4), 0);
  EXPECT_EQ(counted(Counter::UdDroppedNoRoute), 2U);
  EXPECT_TRUE(b_->nothing());
}

class Multicast : public Ud {
 protected:
  void SetUp() override {
    Ud::SetUp();
    mgid_ = {0xFF, 0x12, 0xA0, 0x1B, 0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    handle_.av.attr.dlid = kMlid;
    handle_.av.attr.is_global = 1;
    std::memcpy(handle_.av.attr.grh.dgid.raw, mgid_.data(), 16);
    port_a_ = h1_->view().hcas_of("H1")[0].ports[0];
    port_b_ = h2_->view().hcas_of("H2")[0].ports[0];
  }
  int attach(End& end) {
    end.qp->set_attached();
    return hca::attach_multicast(end.runtime->registry(), end.runtime->token(), end.qp->slot(),
                                 mgid_, kMlid);
  }
  void set_members(const std::vector<PortIndex>& members) {
    fabric_->set_group(kMlid, members);
    ASSERT_TRUE(fabric_->publish());
  }

  static constexpr std::uint16_t kMlid = 0xC001;
  Gid mgid_{};
  PortIndex port_a_ = 0;
  PortIndex port_b_ = 0;
};

TEST_F(Multicast, AttachingWithoutAJoinReceivesNothing) {
  ASSERT_EQ(b_->post_recv(1, 0, 100), 0);
  ASSERT_EQ(attach(*b_), 0);
  ASSERT_EQ(send(4), 0);
  ASSERT_TRUE(a_->wait());  // it is on its way, in the asynchronous mode too
  EXPECT_TRUE(b_->nothing());
  set_members({port_a_, port_b_});
  ASSERT_EQ(send(4), 0);
  const auto wc = b_->wait();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->wc_flags, static_cast<unsigned>(IBV_WC_GRH));
  EXPECT_EQ(counted(Counter::MulticastsSent), 2U);
  EXPECT_EQ(counted(Counter::MulticastsReceived), 1U);
}

TEST_F(Multicast, JoiningWithoutAttachingReceivesNothing) {
  ASSERT_EQ(b_->post_recv(1, 0, 100), 0);
  set_members({port_a_, port_b_});
  ASSERT_EQ(send(4), 0);
  EXPECT_TRUE(b_->nothing());
  ASSERT_EQ(attach(*b_), 0);
  ASSERT_EQ(attach(*b_), 0);  // twice counts once
  ASSERT_EQ(send(4), 0);
  EXPECT_TRUE(b_->wait());
  EXPECT_TRUE(b_->nothing());
  ASSERT_EQ(hca::detach_multicast(h2_->registry(), h2_->token(), b_->qp->slot(), mgid_, kMlid), 0);
  EXPECT_EQ(hca::detach_multicast(h2_->registry(), h2_->token(), b_->qp->slot(), mgid_, kMlid),
            EINVAL);
  ASSERT_EQ(b_->post_recv(2, 0, 100), 0);
  ASSERT_EQ(send(4), 0);
  EXPECT_TRUE(b_->nothing());
}

TEST_F(Multicast, TheQkeyIsCheckedAtEachMember) {
  ASSERT_EQ(b_->post_recv(1, 0, 100), 0);
  ASSERT_EQ(attach(*b_), 0);
  set_members({port_a_, port_b_});
  ASSERT_EQ(send(4, 0x22222222), 0);
  EXPECT_TRUE(b_->nothing());
  EXPECT_EQ(counted(Counter::UdDroppedKey), 1U);
}

TEST_F(Multicast, LoopsBackToTheSendersPortUnlessBlocked) {
  Options options;
  options.type = IBV_QPT_UD;
  const auto sibling = on_h1(options);
  options.block_self_multicast = true;
  a_ = on_h1(options);
  connect(*a_, *sibling);
  ASSERT_EQ(attach(*a_), 0);
  ASSERT_EQ(attach(*sibling), 0);
  set_members({port_a_, port_b_});
  ASSERT_EQ(a_->post_recv(1, 0, 100), 0);
  ASSERT_EQ(sibling->post_recv(2, 0, 100), 0);
  ASSERT_EQ(send(4), 0);
  EXPECT_EQ(sibling->wait()->wr_id, 2U);
  EXPECT_EQ(a_->wait()->opcode, IBV_WC_SEND);
  EXPECT_TRUE(a_->nothing());
}

TEST_F(Multicast, ADestroyedMemberIsDetached) {
  ASSERT_EQ(attach(*b_), 0);
  set_members({port_a_, port_b_});
  b_->qp.reset();
  Options options;
  options.type = IBV_QPT_UD;
  const auto next = on_h2(options);  // takes the slot of the one destroyed
  ASSERT_EQ(next->init(), 0);
  ASSERT_EQ(next->rtr(*a_), 0);
  ASSERT_EQ(next->post_recv(1, 0, 100), 0);
  b_->qp = nullptr;
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud.ah = &handle_.base;
  wr.wr.ud.remote_qpn = hca::kMulticastQpn;
  wr.wr.ud.remote_qkey = kQkey;
  ASSERT_EQ(a_->post(wr, 0, 4), 0);
  EXPECT_TRUE(next->nothing());
}

class UdFaults : public Ud {
 protected:
  void post_receives(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(b_->post_recv(i, i * 64, 64), 0);
    }
  }
};

TEST_F(UdFaults, EveryDatagramDropped) {
  h1_->faults().set({1'000'000, 0, 0, 1});
  post_receives(1);
  ASSERT_EQ(send(4), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_SUCCESS);
  EXPECT_TRUE(b_->nothing());
  EXPECT_EQ(counted(Counter::UdDroppedFault), 1U);
  h2_->faults().set({});  // any process clears it for all
  ASSERT_EQ(send(4), 0);
  EXPECT_TRUE(b_->wait());
}

TEST_F(UdFaults, EveryDatagramTwice) {
  h1_->faults().set({0, 1'000'000, 0, 1});
  post_receives(3);
  ASSERT_EQ(send(4), 0);
  EXPECT_TRUE(b_->wait());
  EXPECT_TRUE(b_->wait());
  EXPECT_TRUE(b_->nothing());
  EXPECT_EQ(counted(Counter::UdDuplicatedFault), 1U);
}

TEST_F(UdFaults, HeldBackUntilTheNextOneOrTwoMilliseconds) {
  post_receives(3);
  h1_->ud_wire().set_hold_back_ns(3'600'000'000'000);
  h1_->faults().set({0, 0, 1'000'000, 1});
  a_->buffer[0] = 1;
  ASSERT_EQ(send(1), 0);
  EXPECT_TRUE(b_->nothing());
  h1_->faults().set({});
  a_->buffer[0] = 2;
  ASSERT_EQ(send(1), 0);
  ASSERT_TRUE(b_->wait());
  ASSERT_TRUE(b_->wait());
  EXPECT_EQ(b_->buffer[40], 2);
  EXPECT_EQ(b_->buffer[64 + 40], 1);

  h1_->ud_wire().set_hold_back_ns(2'000'000);
  h1_->faults().set({0, 0, 1'000'000, 1});
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(send(1), 0);
  ASSERT_TRUE(b_->wait());  // nothing follows: the wait lets it go
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2));
  EXPECT_EQ(counted(Counter::UdReorderedFault), 2U);
}

TEST(DrawFate, FollowsSeedAndProbability) {
  const hca::UdFaultSettings settings{200'000, 100'000, 100'000, 42};
  int dropped = 0;
  int doubled = 0;
  int held = 0;
  bool seed_matters = false;
  hca::UdFaultSettings other = settings;
  other.seed = 43;
  constexpr int kDraws = 100'000;
  for (std::uint64_t n = 0; n < kDraws; ++n) {
    const hca::UdFate fate = hca::draw_fate(settings, n);
    EXPECT_EQ(fate, hca::draw_fate(settings, n));
    seed_matters |= !(fate == hca::draw_fate(other, n));
    dropped += fate.drop ? 1 : 0;
    doubled += fate.duplicate ? 1 : 0;
    held += fate.hold_back ? 1 : 0;
  }
  EXPECT_TRUE(seed_matters);
  EXPECT_NEAR(dropped, 20'000, 600);
  EXPECT_NEAR(doubled, 8'000, 600);  // of the 80 % that are not dropped
  EXPECT_NEAR(held, 8'000, 600);
}

}  // namespace
}  // namespace softhca::test
