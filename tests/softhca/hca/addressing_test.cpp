// SPDX-License-Identifier: BSD-3-Clause
// Ports, LMC path bits, partitions, GIDs and alternate paths count: each test fails if what it is
// about is merely accepted.
//
//   H1 port 1 --- switch A --- port 1 H2
//   H1 port 2 --- switch B --- port 2 H2          LMC 1 everywhere
#include <algorithm>

#include "softhca/hca/rig.hpp"

namespace softhca::test {
namespace {

class Addressing : public Rig {
 protected:
  void SetUp() override {
    fabric_ = StaticFabric::create(dir_.path());
    ASSERT_NE(fabric_, nullptr) << std::strerror(errno);
    first_ = {fabric_->add_hca("H1", 2), fabric_->add_hca("H2", 2)};
    for (std::uint32_t plane = 0; plane < 2; ++plane) {
      const std::uint32_t node = fabric_->add_switch(4);
      for (std::uint32_t host = 0; host < 2; ++host) {
        fabric_->link(first_[host] + plane, node, host + 1);
      }
    }
    fabric_->bring_up(1);
    for (const PortIndex first : first_) {
      for (const PortIndex port : {first, first + 1}) {
        PortRecord& record = fabric_->model().ports[port];
        record.pkey_count = 3;
        record.pkeys[1] = 0x8123;
        record.pkeys[2] = 0x0456;  // a limited member
        record.gid_count = 2;
        record.gids[1] = record.gids[0];
        record.gids[1][15] ^= 0xA0;
      }
    }
    ASSERT_TRUE(fabric_->publish());
    h1_ = hca::Runtime::open(dir_.path(), "H1");
    h2_ = hca::Runtime::open(dir_.path(), "H2");
    ASSERT_NE(h1_, nullptr) << std::strerror(errno);
    ASSERT_NE(h2_, nullptr) << std::strerror(errno);
    a_ = on_h1({});
    b_ = on_h2({});
  }

  [[nodiscard]] PortAttr port(const End& end, std::size_t number) const {
    return h1_->view().port(end.ports[number - 1]);
  }

  /// Puts both ends on a port.
  void use_port(std::uint8_t number) {
    for (End* end : {a_.get(), b_.get()}) {
      end->moves.init.port_num = number;
      end->moves.rtr.ah_attr.port_num = number;
      end->lid = port(*end, number).lid;
    }
  }

  /// Whether a message passes from a to b. One that does not ends in retries exceeded.
  [[nodiscard]] bool passes(std::uint64_t id = 1) {
    EXPECT_EQ(b_->post_recv(id, 0, 64), 0);
    EXPECT_EQ(a_->post_send(id, 64, 8), 0);
    const ibv_wc wc = a_->wait().value_or(ibv_wc{});
    const bool passed = wc.wr_id == id && wc.status == IBV_WC_SUCCESS;
    EXPECT_TRUE(passed || wc.status == IBV_WC_RETRY_EXC_ERR);
    if (passed) {
      received_ = b_->wait().value_or(ibv_wc{});
      EXPECT_EQ(received_.wr_id, id);
    }
    return passed;
  }

  void set_down(PortIndex index) {
    fabric_->model().ports[index].state = kPortInit;
    ASSERT_TRUE(fabric_->publish());
  }

  /// Loads the way through port 2 as the alternate path of both and asks for it to be armed.
  void load_alternate() {
    for (const auto& [end, other] :
         {std::pair{a_.get(), b_.get()}, std::pair{b_.get(), a_.get()}}) {
      ibv_qp_attr attr{};
      attr.alt_port_num = 2;
      attr.alt_ah_attr.port_num = 2;
      attr.alt_ah_attr.dlid = port(*other, 2).lid;
      attr.alt_timeout = 8;
      attr.path_mig_state = IBV_MIG_REARM;
      ASSERT_EQ(end->qp->modify(attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
    }
  }

  static ibv_mig_state migration(End& end) {
    ibv_qp_attr attr{};
    end.qp->query(attr);
    return attr.path_mig_state;
  }

  std::array<PortIndex, 2> first_{};
  std::unique_ptr<End> a_;
  std::unique_ptr<End> b_;
  ibv_wc received_{};
};

TEST_F(Addressing, EachPortIsAWayOfItsOwn) {
  use_port(2);
  connect(*a_, *b_);
  set_down(first_[0]);  // port 1 is no concern of theirs
  EXPECT_TRUE(passes(1));
  set_down(first_[1] + 1);
  EXPECT_FALSE(passes(2));
}

TEST_F(Addressing, APortReachesOnlyItsOwnPlane) {
  b_->moves.init.port_num = 2;
  b_->moves.rtr.ah_attr.port_num = 2;
  b_->lid = port(*b_, 2).lid;
  connect(*a_, *b_);
  EXPECT_FALSE(passes());
}

TEST_F(Addressing, PathBitsAreSeenAtBothEnds) {
  a_->moves.rtr.ah_attr.src_path_bits = 1;
  a_->lid = static_cast<std::uint16_t>(a_->lid + 1);
  b_->moves.rtr.ah_attr.src_path_bits = 1;
  b_->lid = static_cast<std::uint16_t>(b_->lid + 1);
  connect(*a_, *b_);
  EXPECT_TRUE(passes());
  EXPECT_EQ(received_.slid, port(*a_, 1).lid + 1);
}

TEST_F(Addressing, PathBitsThatThePeerWasNotToldOfAreRefused) {
  a_->moves.rtr.ah_attr.src_path_bits = 1;  // b was told of the base LID
  connect(*a_, *b_);
  EXPECT_FALSE(passes());
}

TEST_F(Addressing, ThePartitionIsTheOneOfTheIndex) {
  a_->moves.init.pkey_index = 1;
  b_->moves.init.pkey_index = 1;
  connect(*a_, *b_);
  EXPECT_TRUE(passes());
  EXPECT_EQ(received_.pkey_index, 1);
}

TEST_F(Addressing, TwoPartitionsDoNotMeet) {
  b_->moves.init.pkey_index = 1;
  connect(*a_, *b_);
  EXPECT_FALSE(passes());
}

TEST_F(Addressing, TwoLimitedMembersDoNotMeet) {
  a_->moves.init.pkey_index = 2;
  b_->moves.init.pkey_index = 2;
  connect(*a_, *b_);
  EXPECT_FALSE(passes());
}

/// With a GRH.
class Gids : public Addressing {
 protected:
  /// a sends from its GID `from`, b was told of a's GID `told`.
  void with_gids(std::size_t from, std::size_t told) {
    set_gids(*a_, *b_, from, 1);
    set_gids(*b_, *a_, 1, told);
  }

 private:
  void set_gids(End& end, const End& other, std::size_t sgid, std::size_t dgid) {
    ibv_ah_attr& av = end.moves.rtr.ah_attr;
    av.is_global = 1;
    av.grh.sgid_index = static_cast<std::uint8_t>(sgid);
    const Gid gid = port(other, 1).gids[dgid];
    std::copy(gid.begin(), gid.end(), av.grh.dgid.raw);
  }
};

class TwoGids : public Gids,
                public ::testing::WithParamInterface<std::pair<std::size_t, std::size_t>> {};

TEST_P(TwoGids, TheSendersGidMustBeTheOneThePeerWasToldOf) {
  const auto [from, told] = GetParam();
  with_gids(from, told);
  connect(*a_, *b_);
  EXPECT_EQ(passes(), from == told);
}

INSTANTIATE_TEST_SUITE_P(All, TwoGids,
                         ::testing::Values(std::pair<std::size_t, std::size_t>{0, 0},
                                           std::pair<std::size_t, std::size_t>{0, 1},
                                           std::pair<std::size_t, std::size_t>{1, 0},
                                           std::pair<std::size_t, std::size_t>{1, 1}));

TEST_F(Gids, AnotherSubnetPrefixIsAnotherPort) {
  with_gids(0, 0);
  connect(*a_, *b_);
  ASSERT_TRUE(passes(1));
  for (std::size_t i = 0; i < 2; ++i) {
    fabric_->model().ports[first_[1]].gids[i][7] ^= 0x11;
  }
  ASSERT_TRUE(fabric_->publish());
  EXPECT_FALSE(passes(2));
}

TEST_F(Addressing, ArmingTakesBothEndsAndAMessage) {
  connect(*a_, *b_);
  load_alternate();
  EXPECT_EQ(migration(*a_), IBV_MIG_REARM);
  ASSERT_TRUE(passes());
  EXPECT_EQ(migration(*a_), IBV_MIG_ARMED);
  EXPECT_EQ(migration(*b_), IBV_MIG_ARMED);
  ibv_qp_attr attr{};
  attr.path_mig_state = IBV_MIG_ARMED;  // not a program's to set
  EXPECT_EQ(a_->qp->modify(attr, IBV_QP_PATH_MIG_STATE), EINVAL);
}

TEST_F(Addressing, AProgramMigratesAndThePeerFollows) {
  connect(*a_, *b_);
  load_alternate();
  ASSERT_TRUE(passes(1));
  ibv_qp_attr attr{};
  attr.path_mig_state = IBV_MIG_MIGRATED;
  ASSERT_EQ(a_->qp->modify(attr, IBV_QP_PATH_MIG_STATE), 0);
  EXPECT_EQ(wait_event(*a_), IBV_EVENT_PATH_MIG);
  set_down(first_[0]);  // the first path is not needed any more
  EXPECT_TRUE(passes(2));
  EXPECT_EQ(wait_event(*b_), IBV_EVENT_PATH_MIG);
  EXPECT_EQ(migration(*b_), IBV_MIG_MIGRATED);
  b_->qp->query(attr);
  EXPECT_EQ(attr.port_num, 2);
  EXPECT_EQ(attr.ah_attr.dlid, port(*a_, 2).lid);
  // And back from b, on the way it has taken over.
  ASSERT_EQ(a_->post_recv(3, 0, 64), 0);
  ASSERT_EQ(b_->post_send(4, 64, 8), 0);
  EXPECT_EQ(a_->wait().value_or(ibv_wc{}).wr_id, 3U);
  EXPECT_EQ(b_->wait().value_or(ibv_wc{}).status, IBV_WC_SUCCESS);
}

TEST_F(Addressing, AnArmedQueuePairMigratesWhenItsPathIsLost) {
  connect(*a_, *b_);
  load_alternate();
  ASSERT_TRUE(passes(1));
  set_down(first_[1]);
  EXPECT_TRUE(passes(2));
  EXPECT_EQ(wait_event(*a_), IBV_EVENT_PATH_MIG);
  EXPECT_EQ(wait_event(*b_), IBV_EVENT_PATH_MIG);
  set_down(first_[1] + 1);  // there is no third way
  EXPECT_FALSE(passes(3));
}

TEST_F(Addressing, ALostPathWithoutAnArmedAlternateIsTheEnd) {
  connect(*a_, *b_);
  load_alternate();  // asked for, but no message has armed it
  set_down(first_[1]);
  EXPECT_FALSE(passes());
}

}  // namespace
}  // namespace softhca::test
