// SPDX-License-Identifier: BSD-3-Clause
// Reliable connections between two hosts.
#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "softhca/hca/rig.hpp"

namespace softhca::test {
namespace {

class Rc : public Rig {
 protected:
  void SetUp() override {
    Rig::SetUp();
    a_ = on_h1({});
    b_ = on_h2({});
  }
  void join() { connect(*a_, *b_); }

  std::unique_ptr<End> a_;
  std::unique_ptr<End> b_;
};

TEST_F(Rc, QpNumbersStartAlikeOnEveryHost) {
  EXPECT_EQ(a_->qp->number(), b_->qp->number());
  EXPECT_NE(a_->qp->number(), on_h1({})->qp->number());
}

TEST_F(Rc, SendFillsTheReceiveInOrderAndCompletesBothEnds) {
  join();
  ASSERT_EQ(b_->post_recv(7, 0, 100), 0);
  ASSERT_EQ(b_->post_recv(8, 100, 100), 0);
  std::memcpy(a_->buffer.data(), "first", 5);
  std::memcpy(a_->buffer.data() + 50, "second", 6);
  ASSERT_EQ(a_->post_send(1, 0, 5), 0);
  ASSERT_EQ(a_->post_send(2, 50, 6), 0);
  for (std::uint64_t id : {7U, 8U}) {
    const auto wc = b_->wait();
    ASSERT_TRUE(wc);
    EXPECT_EQ(wc->wr_id, id);
    EXPECT_EQ(wc->status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc->opcode, IBV_WC_RECV);
    EXPECT_EQ(wc->qp_num, b_->qp->number());
    EXPECT_EQ(wc->byte_len, id == 7 ? 5U : 6U);
  }
  EXPECT_EQ(std::memcmp(b_->buffer.data(), "first", 5), 0);
  EXPECT_EQ(std::memcmp(b_->buffer.data() + 100, "second", 6), 0);
  EXPECT_EQ(a_->wait()->wr_id, 1U);
  EXPECT_EQ(a_->wait()->wr_id, 2U);
  EXPECT_TRUE(a_->nothing());
}

TEST_F(Rc, ImmediateInlineAndUnsignalled) {
  join();
  ASSERT_EQ(b_->post_recv(1, 0, 100), 0);
  std::uint8_t text[] = "inline";
  ibv_sge list{reinterpret_cast<std::uint64_t>(text), 6, 0};  // inline data needs no key
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.send_flags = IBV_SEND_INLINE;
  wr.imm_data = 0x12345678;
  wr.sg_list = &list;
  wr.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(a_->qp->post_send(&wr, &bad), 0);
  const auto wc = b_->wait();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->imm_data, 0x12345678U);
  EXPECT_NE(wc->wc_flags & IBV_WC_WITH_IMM, 0U);
  EXPECT_EQ(std::memcmp(b_->buffer.data(), "inline", 6), 0);
  EXPECT_TRUE(a_->nothing());
}

// Short inline messages lie in the completion until it is polled, longer ones do not.
TEST_F(Rc, InlineMessagesOfAllLengthsAreWhereTheyBelongOnceTheyArePolled) {
  End& from = *a_;
  End& to = *b_;
  join();
  constexpr std::uint32_t kLongest = 64;
  for (std::uint32_t length = 0; length <= kLongest; ++length) {
    std::fill(to.buffer.begin(), to.buffer.begin() + 256, std::uint8_t{0xEE});
    for (std::uint32_t i = 0; i < length; ++i) {
      from.buffer[i] = static_cast<std::uint8_t>(length + i);
    }
    ASSERT_EQ(to.post_recv(length, 100, kLongest), 0);
    ASSERT_EQ(from.post_send(length, 0, length, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
    const auto wc = to.wait();
    ASSERT_TRUE(wc);
    EXPECT_EQ(wc->byte_len, length);
    ASSERT_TRUE(
        std::equal(from.buffer.begin(), from.buffer.begin() + length, to.buffer.begin() + 100))
        << length << " bytes";
    ASSERT_EQ(to.buffer[99], 0xEE);
    ASSERT_EQ(to.buffer[100 + length], 0xEE) << length << " bytes";
    ASSERT_TRUE(from.wait());
  }
}

TEST_F(Rc, AnInlineMessageIsScatteredOverSeveralPlaces) {
  join();
  std::array<ibv_sge, 2> list{b_->sge(0, 3), b_->sge(200, 10)};
  ibv_recv_wr wr{};
  wr.sg_list = list.data();
  wr.num_sge = 2;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(b_->qp->post_recv(&wr, &bad), 0);
  std::memcpy(a_->buffer.data(), "abcdefgh", 8);
  ASSERT_EQ(a_->post_send(1, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  ASSERT_TRUE(b_->wait());
  EXPECT_EQ(std::memcmp(b_->buffer.data(), "abc", 3), 0);
  EXPECT_EQ(std::memcmp(b_->buffer.data() + 200, "defgh", 5), 0);
}

// A program may take its buffer back, and give it to somebody else, before it polls.
TEST_F(Rc, NothingIsWrittenToABufferThatWasTakenBack) {
  join();
  const hca::RegionSpec whole{kPd, b_->address(), b_->buffer.size(), b_->address(),
                              IBV_ACCESS_LOCAL_WRITE};
  int error = 0;
  auto region = hca::MemoryRegion::create(*b_->runtime, whole, error);
  ASSERT_NE(region, nullptr);
  ibv_sge list{b_->address(), 64, region->key()};
  ibv_recv_wr wr{};
  wr.sg_list = &list;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(b_->qp->post_recv(&wr, &bad), 0);
  a_->buffer[0] = 0x55;
  ASSERT_EQ(a_->post_send(1, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  ASSERT_TRUE(a_->wait());  // it has arrived
  region.reset();
  b_->buffer[0] = 0xEE;
  const auto wc = b_->wait();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_->buffer[0], 0xEE);
}

TEST_F(Rc, WriteReadAndWriteWithImmediate) {
  join();
  std::memcpy(a_->buffer.data(), "payload", 7);
  ASSERT_EQ(a_->post_rdma(1, IBV_WR_RDMA_WRITE, *b_, 500, 0, 7), 0);
  EXPECT_EQ(a_->wait()->opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(std::memcmp(b_->buffer.data() + 500, "payload", 7), 0);
  EXPECT_TRUE(b_->nothing());

  ASSERT_EQ(a_->post_rdma(2, IBV_WR_RDMA_READ, *b_, 500, 900, 7), 0);
  const auto read = a_->wait();
  EXPECT_EQ(read->opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(read->byte_len, 7U);
  EXPECT_EQ(std::memcmp(a_->buffer.data() + 900, "payload", 7), 0);

  ASSERT_EQ(b_->post_recv(9, 0, 1), 0);
  ASSERT_EQ(a_->post_rdma(3, IBV_WR_RDMA_WRITE_WITH_IMM, *b_, 600, 0, 7), 0);
  const auto wc = b_->wait();
  EXPECT_EQ(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc->wr_id, 9U);
  EXPECT_EQ(wc->byte_len, 7U);
}

TEST_F(Rc, FetchAndAddReturnsTheOldValue) {
  join();
  std::uint64_t value = 40;
  std::memcpy(b_->buffer.data(), &value, sizeof value);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.atomic.remote_addr = b_->address();
  wr.wr.atomic.rkey = b_->region->key();
  wr.wr.atomic.compare_add = 2;
  ASSERT_EQ(a_->post(wr, 8, 8), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_SUCCESS);
  std::memcpy(&value, a_->buffer.data() + 8, sizeof value);
  EXPECT_EQ(value, 40U);
  std::memcpy(&value, b_->buffer.data(), sizeof value);
  EXPECT_EQ(value, 42U);
}

TEST_F(Rc, ASwapThatDoesNotTakePlaceWritesNothing) {
  join();
  // In a page that nobody may write to: what is written back would be seen.
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t offset = kPage - b_->address() % kPage;
  const std::uint64_t value = 40;
  std::memcpy(b_->buffer.data() + offset, &value, sizeof value);
  auto* page = b_->buffer.data() + offset;
  ASSERT_EQ(::mprotect(page, kPage, PROT_READ), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.atomic.remote_addr = b_->address(offset);
  wr.wr.atomic.rkey = b_->region->key();
  wr.wr.atomic.compare_add = 41;
  wr.wr.atomic.swap = 42;
  ASSERT_EQ(a_->post(wr, 8, 8), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_SUCCESS);
  std::uint64_t found = 0;
  std::memcpy(&found, a_->buffer.data() + 8, sizeof found);
  EXPECT_EQ(found, value);
  wr.wr.atomic.compare_add = value;
  ASSERT_EQ(a_->post(wr, 8, 8), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_REM_ACCESS_ERR);
  ASSERT_EQ(::mprotect(page, kPage, PROT_READ | PROT_WRITE), 0);
}

class RcBadKey : public Rc, public ::testing::WithParamInterface<bool> {};

TEST_P(RcBadKey, StaleKeyAndBoundsAreRefusedAndBreakBothQps) {
  const bool stale = GetParam();
  join();
  ASSERT_EQ(b_->post_recv(5, 0, 16), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.rkey = b_->region->key() ^ (stale ? 1U : 0U);
  wr.wr.rdma.remote_addr = b_->address(stale ? 0 : b_->buffer.size() - 4);
  ASSERT_EQ(a_->post(wr, 0, 8), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b_->wait()->status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a_->qp->state(), IBV_QPS_ERR);
  EXPECT_EQ(b_->qp->state(), IBV_QPS_ERR);
  EXPECT_EQ(b_->event(), IBV_EVENT_QP_ACCESS_ERR);
}

INSTANTIATE_TEST_SUITE_P(StaleOrBounds, RcBadKey, ::testing::Bool());

TEST_F(Rc, AKeyIsDeadOnceItsRegionIsDeregistered) {
  join();
  const std::uint32_t key = b_->region->key();
  hca::RegionSpec spec = b_->region->spec();
  b_->region.reset();
  int error = 0;
  b_->region = hca::MemoryRegion::create(*h2_, spec, error);
  ASSERT_NE(b_->region, nullptr);
  EXPECT_NE(b_->region->key(), key);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.rkey = key;
  wr.wr.rdma.remote_addr = b_->address();
  ASSERT_EQ(a_->post(wr, 0, 8), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Rc, WriteNeedsTheQpsPermission) {
  b_->moves.init.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  join();
  ASSERT_EQ(a_->post_rdma(1, IBV_WR_RDMA_WRITE, *b_, 0, 0, 8), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Rc, ReadNeedsResourcesAtBothEnds) {
  b_->moves.rtr.max_dest_rd_atomic = 0;
  join();
  ASSERT_EQ(a_->post_rdma(1, IBV_WR_RDMA_READ, *b_, 0, 0, 8), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(Rc, MessageTooLongForTheReceive) {
  join();
  ASSERT_EQ(b_->post_recv(1, 0, 4), 0);
  ASSERT_EQ(a_->post_send(2, 0, 5, 0), 0);
  EXPECT_EQ(b_->wait()->status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(a_->wait()->status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(Rc, LocalKeyIsChecked) {
  join();
  ASSERT_EQ(b_->post_recv(1, 0, 64), 0);
  ibv_sge list{a_->address(), 8, a_->region->key() + 1};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = &list;
  wr.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(a_->qp->post_send(&wr, &bad), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_LOC_PROT_ERR);
  EXPECT_TRUE(b_->nothing());
}

TEST_F(Rc, PostingBeforeItsTime) {
  EXPECT_EQ(a_->post_recv(1, 0, 8), EINVAL);
  ASSERT_EQ(a_->init(), 0);
  EXPECT_EQ(a_->post_recv(1, 0, 8), 0);
  EXPECT_EQ(a_->post_send(1, 0, 8), EINVAL);
  ASSERT_EQ(a_->rtr(*b_), 0);
  EXPECT_EQ(a_->post_send(1, 0, 8), EINVAL);
}

TEST_F(Rc, QueuesAreFullUntilCompletionsArePolled) {
  join();
  for (std::uint64_t i = 0; i < 16; ++i) {
    ASSERT_EQ(b_->post_recv(i, 0, 8), 0);
  }
  EXPECT_EQ(b_->post_recv(16, 0, 8), ENOMEM);
  for (std::uint64_t i = 0; i < 16; ++i) {
    ASSERT_EQ(a_->post_send(i, 0, 8, i == 15 ? unsigned{IBV_SEND_SIGNALED} : 0U), 0);
  }
  EXPECT_EQ(a_->post_send(16, 0, 8), ENOMEM);
  EXPECT_EQ(b_->post_recv(16, 0, 8), ENOMEM);
  EXPECT_EQ(a_->wait()->wr_id, 15U);  // frees the fifteen unsignalled before it too
  EXPECT_EQ(b_->wait()->wr_id, 0U);
  EXPECT_EQ(b_->post_recv(16, 0, 8), 0);
  EXPECT_EQ(a_->post_send(16, 0, 8), 0);
}

TEST_F(Rc, ReceiverNotReadyWaitsForAReceive) {
  join();
  ASSERT_EQ(a_->post_send(1, 0, 8), 0);
  ASSERT_EQ(a_->post_send(2, 0, 8), 0);  // stays behind the first
  EXPECT_TRUE(a_->nothing());
  ASSERT_EQ(b_->post_recv(3, 0, 8), 0);
  ASSERT_EQ(b_->post_recv(4, 0, 8), 0);
  EXPECT_EQ(a_->wait()->wr_id, 1U);
  EXPECT_EQ(a_->wait()->wr_id, 2U);
  EXPECT_EQ(b_->wait()->wr_id, 3U);
}

TEST_F(Rc, ReceiverNotReadyTooOften) {
  a_->moves.rts.rnr_retry = 2;
  join();
  ASSERT_EQ(a_->post_send(1, 0, 8), 0);
  ASSERT_EQ(a_->post_send(2, 0, 8, 0), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_RNR_RETRY_EXC_ERR);
  const auto flushed = a_->wait();
  EXPECT_EQ(flushed->wr_id, 2U);
  EXPECT_EQ(flushed->status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(counted(Counter::RcRnrExceeded), 1U);
}

TEST_F(Rc, SendWaitsForAPeerThatIsNotReadyToReceive) {
  a_->moves.rts.timeout = 0;  // for ever
  ASSERT_EQ(a_->init(), 0);
  ASSERT_EQ(b_->init(), 0);
  ASSERT_EQ(b_->post_recv(1, 0, 8), 0);
  ASSERT_EQ(a_->rtr(*b_), 0);
  ASSERT_EQ(a_->rts(), 0);
  ASSERT_EQ(a_->post_send(1, 0, 8), 0);
  EXPECT_TRUE(a_->nothing());
  ASSERT_EQ(b_->rtr(*a_), 0);
  EXPECT_EQ(a_->wait()->status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_->wait()->status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_->event(), IBV_EVENT_COMM_EST);
}

/// Everything in which two ends can disagree; none may pass data.
enum class Disagreement { DestQpn, RqPsn, Mtu, Lid, PortDown, Destroyed, Reset };

class RcNoAnswer : public Rc, public ::testing::WithParamInterface<Disagreement> {};

TEST_P(RcNoAnswer, RetriesAreExceeded) {
  ASSERT_EQ(a_->init(), 0);
  ASSERT_EQ(b_->init(), 0);
  ASSERT_EQ(b_->post_recv(1, 0, 8), 0);
  ASSERT_EQ(a_->rtr(*b_), 0);
  const auto other = on_h1({});
  switch (GetParam()) {
    case Disagreement::DestQpn:
      ASSERT_EQ(b_->rtr(*other), 0);
      break;
    case Disagreement::RqPsn:
      b_->moves.rtr.rq_psn = 1;
      ASSERT_EQ(b_->rtr(*a_), 0);
      break;
    case Disagreement::Mtu:
      b_->moves.rtr.path_mtu = IBV_MTU_1024;
      ASSERT_EQ(b_->rtr(*a_), 0);
      break;
    case Disagreement::Lid:
      ASSERT_EQ(b_->rtr(*a_), 0);
      fabric_->model().ports[h1_->view().hcas_of("H1")[0].ports[0]].lid =
          static_cast<std::uint16_t>(a_->lid + 100);
      ASSERT_TRUE(fabric_->publish());
      break;
    case Disagreement::PortDown:
      ASSERT_EQ(b_->rtr(*a_), 0);
      fabric_->model().ports[h2_->view().hcas_of("H2")[0].ports[0]].state = kPortInit;
      ASSERT_TRUE(fabric_->publish());
      break;
    case Disagreement::Destroyed:
      b_->qp.reset();
      break;
    case Disagreement::Reset:
      ASSERT_EQ(b_->rtr(*a_), 0);
      ASSERT_EQ(b_->move(IBV_QPS_RESET), 0);
      break;
  }
  ASSERT_EQ(a_->rts(), 0);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(a_->post_send(1, 0, 8), 0);
  const auto wc = a_->wait();
  const auto took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->status, IBV_WC_RETRY_EXC_ERR);
  // timeout 8, three tries: 3 * 4.096 us * 256
  EXPECT_GE(took, std::chrono::microseconds(3145));
  EXPECT_EQ(a_->qp->state(), IBV_QPS_ERR);
  EXPECT_EQ(counted(Counter::RcRetryExceeded), 1U);
}

INSTANTIATE_TEST_SUITE_P(All, RcNoAnswer,
                         ::testing::Values(Disagreement::DestQpn, Disagreement::RqPsn,
                                           Disagreement::Mtu, Disagreement::Lid,
                                           Disagreement::PortDown, Disagreement::Destroyed,
                                           Disagreement::Reset));

TEST_F(Rc, ErrorFlushesBothQueuesInOrderAndWhatIsPostedLater) {
  join();
  ASSERT_EQ(a_->post_recv(1, 0, 8), 0);
  ASSERT_EQ(a_->post_recv(2, 0, 8), 0);
  ASSERT_EQ(a_->post_send(3, 0, 8), 0);  // waits: no receive is posted at the peer
  ASSERT_EQ(a_->move(IBV_QPS_ERR), 0);
  ASSERT_EQ(a_->post_send(4, 0, 8, 0), 0);
  ASSERT_EQ(a_->post_recv(5, 0, 8), 0);
  std::vector<std::uint64_t> sends;
  std::vector<std::uint64_t> receives;
  for (int i = 0; i < 5; ++i) {
    const auto wc = a_->wait();
    ASSERT_TRUE(wc);
    EXPECT_EQ(wc->status, IBV_WC_WR_FLUSH_ERR);
    (wc->wr_id == 3 || wc->wr_id == 4 ? sends : receives).push_back(wc->wr_id);
  }
  EXPECT_EQ(sends, (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(receives, (std::vector<std::uint64_t>{1, 2, 5}));
}

TEST_F(Rc, ResetForgetsRequestsAndCompletions) {
  join();
  ASSERT_EQ(b_->post_recv(1, 0, 8), 0);
  ASSERT_EQ(a_->post_send(2, 0, 8), 0);
  ASSERT_EQ(a_->move(IBV_QPS_RESET), 0);
  ASSERT_EQ(b_->move(IBV_QPS_RESET), 0);
  EXPECT_TRUE(a_->nothing());
  EXPECT_TRUE(b_->nothing());
  join();  // and it can be used again
  ASSERT_EQ(b_->post_recv(3, 0, 8), 0);
  ASSERT_EQ(a_->post_send(4, 0, 8), 0);
  EXPECT_EQ(b_->wait()->wr_id, 3U);
  EXPECT_EQ(a_->wait()->wr_id, 4U);
}

TEST_F(Rc, AFullCompletionQueueIsAnError) {
  Options small;
  small.cqe = 1;
  b_ = on_h2(small);
  join();
  ASSERT_EQ(b_->post_recv(1, 0, 8), 0);
  ASSERT_EQ(b_->post_recv(2, 0, 8), 0);
  ASSERT_EQ(a_->post_send(1, 0, 8), 0);
  ASSERT_EQ(a_->post_send(2, 0, 8), 0);
  EXPECT_EQ(b_->event(), IBV_EVENT_CQ_ERR);
}

TEST_F(Rc, SharedReceiveQueueServesTwoQpsAndSignalsItsLimit) {
  Options options;
  options.srq = true;
  b_ = on_h2(options);
  join();
  ibv_srq_attr limit{};
  limit.srq_limit = 2;
  ASSERT_EQ(b_->post_recv(1, 0, 8), 0);
  ASSERT_EQ(b_->post_recv(2, 8, 8), 0);
  ASSERT_EQ(b_->srq->modify(limit, IBV_SRQ_LIMIT), 0);
  std::memcpy(a_->buffer.data(), "shared!!", 8);
  ASSERT_EQ(a_->post_send(3, 0, 8), 0);
  EXPECT_EQ(b_->wait()->wr_id, 1U);
  EXPECT_EQ(std::memcmp(b_->buffer.data(), "shared!!", 8), 0);
  EXPECT_EQ(b_->event(), IBV_EVENT_SRQ_LIMIT_REACHED);
  ASSERT_EQ(b_->move(IBV_QPS_ERR), 0);
  EXPECT_EQ(b_->event(), IBV_EVENT_QP_LAST_WQE_REACHED);
}

}  // namespace
}  // namespace softhca::test
