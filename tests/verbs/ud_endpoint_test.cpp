// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <vector>

#include "verbs/fake_verbs.hpp"
#include "verbs/ud_endpoint.hpp"

namespace wireup::verbs {
namespace {

/// An endpoint whose datagrams come back to itself.
class UdEndpointTest : public testing::Test {
 protected:
  UdEndpointTest()
      : device_(*Device::open("fake0", FakeVerbs::ops())),
        endpoint_(*UdEndpoint::open(device_, {.qkey = QKey(0x11),
                                              .send_depth = 4,
                                              .receive_depth = 8,
                                              .message_size = 64,
                                              .max_address_handles = 3})) {}

  Result<> send(std::uint16_t lid, std::uint8_t fill = 0) {
    const std::vector<std::uint8_t> message(64, fill);
    UdDestination to;
    to.dlid = Lid(lid);
    return endpoint_.send(to, message);
  }
  std::size_t poll(std::size_t max = 100) {
    const auto count = endpoint_.poll(
        [this](const UdDatagram& datagram) {
          bytes_.assign(datagram.bytes.begin(), datagram.bytes.end());
          last_ = datagram;
        },
        max);
    EXPECT_TRUE(count);
    return count.value_or(0);
  }

  FakeVerbs fake_;
  Device device_;
  UdEndpoint endpoint_;
  std::vector<std::uint8_t> bytes_;
  UdDatagram last_;
};

TEST_F(UdEndpointTest, DeliversBytesAndWhereTheyAreFrom) {
  ASSERT_TRUE(send(9, 0xA5));
  ASSERT_EQ(poll(), 1U);
  EXPECT_EQ(bytes_, std::vector<std::uint8_t>(64, 0xA5));
  EXPECT_EQ(last_.slid, Lid(17));
  EXPECT_EQ(last_.source_qpn, Qpn(0x321));
  EXPECT_EQ(last_.sl, Sl(3));
  ASSERT_TRUE(last_.has_grh);
  EXPECT_EQ(last_.traffic_class, 0xBC);
  EXPECT_EQ(last_.flow_label, FlowLabel(0x12345));
  EXPECT_EQ(last_.hop_limit, 9);
  EXPECT_EQ(last_.sgid, Gid::make(0xFE80'0000'0000'0000, Guid(0x77)));
  EXPECT_EQ(last_.dgid.interface_id(), Guid(0x88));
}

TEST_F(UdEndpointTest, PostsItsReceivesAgain) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(send(9));
    ASSERT_EQ(poll(), 1U);
  }
  EXPECT_EQ(endpoint_.counters().sent, 50U);
  EXPECT_EQ(endpoint_.counters().received, 50U);
}

TEST_F(UdEndpointTest, TooLongAMessageIsRefused) {
  const std::vector<std::uint8_t> message(65);
  EXPECT_TRUE(endpoint_.send({}, message).error().is(Errc::InvalidArgument));
}

TEST_F(UdEndpointTest, KeepsNoMoreAddressHandlesThanItMay) {
  for (std::uint16_t lid = 1; lid <= 20; ++lid) {
    ASSERT_TRUE(send(lid));
    poll();
    EXPECT_LE(fake_.live["ah"], 3U);
  }
  const std::uint64_t before = fake_.calls();
  ASSERT_TRUE(send(20));
  EXPECT_EQ(fake_.calls(), before + 1) << "the handle was not found again";
}

TEST_F(UdEndpointTest, IsBroughtBackAfterAnError) {
  fake_.spoil_next_receive(IBV_WC_LOC_LEN_ERR);
  ASSERT_TRUE(send(9));
  EXPECT_EQ(poll(), 0U);
  EXPECT_EQ(endpoint_.counters().restarts, 1U);
  EXPECT_EQ(endpoint_.counters().failed, 1U);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(send(9, 0x33));
    ASSERT_EQ(poll(), 1U);
  }
  EXPECT_EQ(bytes_, std::vector<std::uint8_t>(64, 0x33));
}

TEST_F(UdEndpointTest, IsBusyWhileEverySendIsInFlight) {
  fake_.holds_send_completions = true;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(send(9));
  }
  EXPECT_TRUE(send(9).error().is(Errc::Busy));
  EXPECT_TRUE(send(9).error().is(Errc::Busy));
  fake_.holds_send_completions = false;
  EXPECT_TRUE(send(9));
}

TEST_F(UdEndpointTest, LeavesItsGroups) {
  const Gid group = Gid::make(0xFF15'4001'FFFF'0000, Guid(1));
  ASSERT_TRUE(endpoint_.attach(group, Lid(0xC001)));
  EXPECT_TRUE(endpoint_.detach(group, Lid(0xC002)).error().is(Errc::NotFound));
  ASSERT_TRUE(endpoint_.detach(group, Lid(0xC001)));
  // Still attached when the endpoint dies: the fake checks that it is left first.
  ASSERT_TRUE(endpoint_.attach(group, Lid(0xC001)));
}

}  // namespace
}  // namespace wireup::verbs
