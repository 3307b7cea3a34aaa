// SPDX-License-Identifier: BSD-3-Clause
// The carrier over QP1 with the kernel played by a table of calls; over softhca, see test_gsi.py.
#include "cm/driver/gsi_carrier.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "mad/cm.hpp"
#include "umad/fake_umad.hpp"

namespace wireup::cm {
namespace {

using testing::HasSubstr;
using umad::test::FakeUmad;

constexpr std::size_t kMany = 64;

mad::Mad rtu(std::uint64_t tid) {
  mad::Rtu message;
  message.tid = Tid(tid);
  message.local_comm_id = CommId(0x11);
  message.remote_comm_id = CommId(0x22);
  return mad::serialize(message);
}

Transmit transmit(const Address& to, std::uint64_t tid = 1) {
  Transmit next;
  next.to = to;
  next.kind = mad::CmKind::Rtu;
  next.bytes = rtu(tid);
  return next;
}

Address to_lid(std::uint16_t lid) {
  Address to;
  to.dlid = Lid(lid);
  to.qpn = Qpn(1);
  return to;
}

bool is_readable(int fd, int timeout_ms) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, timeout_ms) == 1;
}

class GsiCarrierTest : public testing::Test {
 protected:
  static GsiCarrier::Options options() {
    GsiCarrier::Options options;
    options.device = "mlx5_0";
    options.port = 2;
    options.kernel_cm = "/nonexistent/ib_cm";
    return options;
  }
  static GsiCarrier open(const GsiCarrier::Options& options = GsiCarrierTest::options()) {
    auto carrier = GsiCarrier::open(options, FakeUmad::ops());
    EXPECT_TRUE(carrier.has_value()) << carrier.error().what();
    return std::move(*carrier);
  }
  static Error refused(const GsiCarrier::Options& options = GsiCarrierTest::options()) {
    auto carrier = GsiCarrier::open(options, FakeUmad::ops());
    EXPECT_FALSE(carrier.has_value());
    return carrier ? Error() : carrier.error();
  }
  /// Messages that a poll calls for.
  static std::vector<std::pair<Address, std::vector<std::uint8_t>>> take(GsiCarrier& carrier) {
    std::vector<std::pair<Address, std::vector<std::uint8_t>>> taken;
    const auto count = carrier.poll(
        [&taken](const Address& from, std::span<const std::uint8_t> bytes) {
          taken.emplace_back(from, std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
        },
        kMany);
    EXPECT_TRUE(count.has_value());
    EXPECT_EQ(count.value_or(0), taken.size());
    return taken;
  }

  FakeUmad fake_;
};

TEST_F(GsiCarrierTest, RegistersForWhatComesUnasked) {
  {
    const GsiCarrier carrier = open();
    EXPECT_EQ(fake_.opened, "mlx5_0:2");
    EXPECT_EQ(fake_.registered_class, 0x07);
    EXPECT_EQ(fake_.registered_version, 2);
    EXPECT_EQ(fake_.registered_methods, 1U << 3 | 1U << 1) << "Send and Get, and no other";
    EXPECT_EQ(carrier.qpn(), Qpn(1));
    EXPECT_FALSE(is_readable(carrier.fd(), 0));
  }
  EXPECT_EQ(fake_.ports_open, 0);
  EXPECT_EQ(fake_.agents, 0);
}

TEST_F(GsiCarrierTest, AMessageGoesToQp1Once) {
  GsiCarrier carrier = open();
  Address to = to_lid(0x1234);
  to.sl = Sl(5);
  to.path_bits = 3;
  ASSERT_TRUE(carrier.send(transmit(to, 0x1122334455667788)).has_value());
  ASSERT_EQ(fake_.sent.size(), 1U);
  const auto& sent = fake_.sent.front();
  EXPECT_EQ(ntohs(sent.address.lid), 0x1234);
  EXPECT_EQ(ntohl(sent.address.qpn), 1U);
  EXPECT_EQ(ntohl(sent.address.qkey), 0x80010000U);
  EXPECT_EQ(sent.address.sl, 5);
  EXPECT_EQ(sent.address.path_bits, 3);
  EXPECT_EQ(sent.address.grh_present, 0);
  EXPECT_EQ(sent.address.pkey_index, 0);
  EXPECT_EQ(sent.timeout_ms, 0) << "nothing comes back for it";
  EXPECT_EQ(sent.retries, 0);
  EXPECT_EQ(sent.bytes, rtu(0x1122334455667788)) << "the transaction id included";
  EXPECT_EQ(carrier.counters().sent, 1U);
}

TEST_F(GsiCarrierTest, AGrhIsSentWhole) {
  GsiCarrier::Options with_gid = options();
  with_gid.gid_index = 1;
  with_gid.pkey_index = 4;
  GsiCarrier carrier = open(with_gid);
  Address to = to_lid(9);
  to.has_grh = true;
  to.dgid = Gid::make(0xFE80000000000000, Guid(0x0002C90300000001));
  to.flow_label = FlowLabel(0xABCDE);
  to.hop_limit = 63;
  to.traffic_class = 0x5A;
  ASSERT_TRUE(carrier.send(transmit(to)).has_value());
  to.pkey_index = 7;
  ASSERT_TRUE(carrier.send(transmit(to)).has_value());
  ASSERT_EQ(fake_.sent.size(), 2U);
  const ib_mad_addr_t& address = fake_.sent[0].address;
  EXPECT_EQ(address.grh_present, 1);
  EXPECT_EQ(address.gid_index, 1);
  EXPECT_TRUE(std::equal(to.dgid.bytes().begin(), to.dgid.bytes().end(), address.gid));
  EXPECT_EQ(ntohl(address.flow_label), 0xABCDEU);
  EXPECT_EQ(address.hop_limit, 63);
  EXPECT_EQ(address.traffic_class, 0x5A);
  EXPECT_EQ(address.pkey_index, 4) << "the carrier's own";
  EXPECT_EQ(fake_.sent[1].address.pkey_index, 7) << "the one that was asked for";
}

TEST_F(GsiCarrierTest, TheWayBackIsWhatTheKernelSays) {
  GsiCarrier carrier = open();
  FakeUmad::Waiting next;
  next.bytes = rtu(5);
  next.from_lid = 0x0301;
  next.from.qpn = htonl(1);
  next.from.sl = 2;
  next.from.path_bits = 1;
  next.from.pkey_index = 6;
  fake_.waiting.push_back(next);
  next.from.grh_present = 1;
  next.from.gid[0] = 0xFE;
  next.from.gid[15] = 0x77;
  next.from.flow_label = htonl(0x12345);
  next.from.hop_limit = 1;  // all but used up on the way here
  next.from.traffic_class = 0x40;
  fake_.waiting.push_back(next);
  const auto taken = take(carrier);
  ASSERT_EQ(taken.size(), 2U);
  Address expected = to_lid(0x0301);
  expected.sl = Sl(2);
  expected.path_bits = 1;
  expected.pkey_index = 6;
  EXPECT_EQ(taken[0].first, expected);
  const mad::Mad whole = rtu(5);
  EXPECT_TRUE(
      std::equal(whole.begin(), whole.end(), taken[0].second.begin(), taken[0].second.end()));
  expected.has_grh = true;
  Gid::Bytes gid{};
  gid[0] = 0xFE;
  gid[15] = 0x77;
  expected.dgid = Gid(gid);
  expected.flow_label = FlowLabel(0x12345);
  expected.hop_limit = 0xFF;
  expected.traffic_class = 0x40;
  EXPECT_EQ(taken[1].first, expected);
  EXPECT_EQ(carrier.counters().received, 2U);
  // And back on the P_Key that it came with.
  ASSERT_TRUE(carrier.send(transmit(taken[1].first)).has_value());
  EXPECT_EQ(fake_.sent.front().address.pkey_index, 6);
  EXPECT_EQ(fake_.sent.front().address.path_bits, 1);
}

TEST_F(GsiCarrierTest, FieldsThatCannotBeAreCutToTheirWidth) {
  GsiCarrier carrier = open();
  FakeUmad::Waiting next;
  next.bytes = rtu(5);
  std::memset(&next.from, 0xFF, sizeof next.from);
  next.from_lid = 0xFFFF;
  fake_.waiting.push_back(next);
  const auto taken = take(carrier);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].first.qpn, Qpn(0xFFFFFF));
  EXPECT_EQ(taken[0].first.sl, Sl(15));
  EXPECT_EQ(taken[0].first.flow_label, FlowLabel(0xFFFFF));
}

TEST_F(GsiCarrierTest, OnlyWholeMadsThatCameAreMessages) {
  GsiCarrier carrier = open();
  for (const int size : {0, 1, 24, 255, 257, 5000}) {
    FakeUmad::Waiting next;
    next.bytes = rtu(5);
    next.size = size;
    next.rest.assign(5000, 0);
    fake_.waiting.push_back(next);
  }
  FakeUmad::Waiting returned;
  returned.bytes = rtu(6);
  returned.status = ETIMEDOUT;
  fake_.waiting.push_back(returned);
  EXPECT_TRUE(take(carrier).empty());
  EXPECT_EQ(carrier.counters().ignored, 7U);
  EXPECT_TRUE(fake_.waiting.empty()) << "none holds up the queue";
}

TEST_F(GsiCarrierTest, NoMoreThanAskedForAreTaken) {
  GsiCarrier carrier = open();
  for (int i = 0; i < 5; ++i) {
    FakeUmad::Waiting next;
    next.bytes = rtu(5);
    next.size = i == 0 ? 10 : next.size;
    fake_.waiting.push_back(next);
  }
  int called = 0;
  const auto count = carrier.poll([&called](const Address&, auto) { ++called; }, 3);
  ASSERT_TRUE(count.has_value());
  EXPECT_EQ(*count, 2U) << "the first was no message";
  EXPECT_EQ(called, 2);
  EXPECT_EQ(fake_.waiting.size(), 2U);
}

TEST_F(GsiCarrierTest, TheCallbackMaySend) {
  GsiCarrier carrier = open();
  FakeUmad::Waiting next;
  next.bytes = rtu(0xAAAA);
  fake_.waiting.push_back(next);
  const auto count = carrier.poll(
      [&carrier](const Address& from, std::span<const std::uint8_t> bytes) {
        ASSERT_TRUE(carrier.send(transmit(from, 0xBBBB)).has_value());
        const mad::Mad expected = rtu(0xAAAA);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()))
            << "sending must not overwrite what was received";
      },
      kMany);
  EXPECT_EQ(count.value_or(0), 1U);
}

TEST_F(GsiCarrierTest, AMessageOfATransactionOnItsWayIsKept) {
  GsiCarrier carrier = open();
  fake_.sends_refused = 2;
  ASSERT_TRUE(carrier.send(transmit(to_lid(1), 1)).has_value());
  ASSERT_TRUE(carrier.send(transmit(to_lid(2), 2)).has_value());
  EXPECT_TRUE(fake_.sent.empty());
  EXPECT_EQ(carrier.counters().delayed, 1U) << "the second waits behind the first";
  ASSERT_TRUE(is_readable(carrier.fd(), 60'000)) << "the kernel does not say when it would";
  EXPECT_TRUE(take(carrier).empty());
  ASSERT_EQ(fake_.sent.size(), 1U) << "one that is refused does not hold up the others";
  EXPECT_EQ(ntohs(fake_.sent[0].address.lid), 2);
  ASSERT_TRUE(is_readable(carrier.fd(), 60'000));
  EXPECT_TRUE(take(carrier).empty());
  ASSERT_EQ(fake_.sent.size(), 2U);
  EXPECT_EQ(ntohs(fake_.sent[1].address.lid), 1);
  EXPECT_FALSE(is_readable(carrier.fd(), 20)) << "nothing to do any more";
  EXPECT_EQ(carrier.counters().failed, 0U);
}

TEST_F(GsiCarrierTest, WhatTheKernelKeepsRefusingIsDropped) {
  GsiCarrier::Options impatient = options();
  impatient.patience = Duration(0);
  GsiCarrier carrier = open(impatient);
  fake_.send_error = EINVAL;
  ASSERT_TRUE(carrier.send(transmit(to_lid(1))).has_value());
  EXPECT_TRUE(take(carrier).empty());
  EXPECT_EQ(carrier.counters().failed, 1U);
  EXPECT_FALSE(is_readable(carrier.fd(), 20));
  fake_.send_error = 0;
  EXPECT_TRUE(take(carrier).empty());
  EXPECT_TRUE(fake_.sent.empty());
}

TEST_F(GsiCarrierTest, WaitingHasABound) {
  GsiCarrier::Options small = options();
  small.max_waiting = 3;
  GsiCarrier carrier = open(small);
  for (const int error : {ENOMEM, EAGAIN, ENOBUFS}) {
    fake_.send_error = error;
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(carrier.send(transmit(to_lid(1))).has_value()) << error;
    }
    fake_.send_error = 0;
    fake_.sent.clear();
    EXPECT_TRUE(take(carrier).empty());
    EXPECT_EQ(fake_.sent.size(), 3U) << error;
  }
  EXPECT_EQ(carrier.overflows(), 6U);
}

TEST_F(GsiCarrierTest, ADeviceThatIsGoneIsAnError) {
  GsiCarrier carrier = open();
  fake_.send_error = ENODEV;
  const auto sent = carrier.send(transmit(to_lid(1)));
  ASSERT_FALSE(sent.has_value());
  EXPECT_THAT(std::string(sent.error().what()), HasSubstr("mlx5_0 port 2"));
  EXPECT_EQ(sent.error().error_number(), ENODEV);
  EXPECT_EQ(carrier.counters().failed, 1U);
  fake_.send_error = 0;
  fake_.receive_error = EIO;
  const auto polled = carrier.poll([](const Address&, auto) {}, 1);
  ASSERT_FALSE(polled.has_value());
  EXPECT_THAT(std::string(polled.error().what()), HasSubstr("receiving a MAD on mlx5_0 port 2"));
}

TEST_F(GsiCarrierTest, AClassThatIsTakenIsToldApartFromOtherTroubles) {
  for (const int error : {EINVAL, EBUSY}) {
    fake_.register_error = error;
    const Error taken = refused();
    EXPECT_TRUE(taken.is(Errc::Busy)) << error;
    const std::string text(taken.what());
    EXPECT_THAT(text, HasSubstr("mlx5_0 port 2"));
    EXPECT_THAT(text, HasSubstr("another process"));
    EXPECT_THAT(text, HasSubstr("use the ud carrier"));
    EXPECT_THAT(text, testing::Not(HasSubstr("ib_cm")));
  }
  // This process's own folder stands for a loaded module.
  GsiCarrier::Options with_module = options();
  with_module.kernel_cm = "/proc/self";
  const Error kernel = refused(with_module);
  EXPECT_TRUE(kernel.is(Errc::Busy));
  EXPECT_THAT(std::string(kernel.what()), HasSubstr("the kernel's ib_cm"));
  EXPECT_THAT(std::string(kernel.what()), HasSubstr("unload ib_cm"));

  fake_.register_error = EACCES;  // a security module's word
  EXPECT_TRUE(refused().is(Errc::NoPermission));
  fake_.register_error = EPERM;
  EXPECT_TRUE(refused().is(Errc::NoPermission));
  fake_.register_error = ENOMEM;
  EXPECT_TRUE(refused().is(Errc::NoResources));
  fake_.register_error = EPROTONOSUPPORT;
  EXPECT_TRUE(refused().is(Errc::Unsupported));
  fake_.register_error = 0;
  fake_.open_error = EACCES;
  EXPECT_TRUE(refused().is(Errc::NoPermission));
  fake_.open_error = ENODEV;
  EXPECT_TRUE(refused().is(Errc::NoDevice));
  EXPECT_EQ(fake_.ports_open, 0) << "a port was leaked";
}

}  // namespace
}  // namespace wireup::cm
