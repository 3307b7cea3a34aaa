// SPDX-License-Identifier: BSD-3-Clause
//
// Calls and events of the kernel's CM in values of ours: what is refused, dropped and given back.
// The sequences of whole connections are in tests/cm.
#include "rdmacm/kernel_cm.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "rdmacm/fake_rdma_cm.hpp"
#include "rdmacm/socket_address.hpp"

namespace wireup::rdmacm {
namespace {

using std::chrono::seconds;

IbAddress ib(std::uint64_t service = 0) {
  return {Gid::make(0xFE80000000000000, Guid(1)), PKey(0x8001), ServiceId(service)};
}

class KernelCmTest : public testing::Test {
 protected:
  KernelCmTest() {
    kernel_.is_simulated = false;
    auto opened = KernelCm::open("/dev/null", &test::FakeRdmaCm::ops());
    EXPECT_TRUE(opened.has_value());
    cm_.emplace(std::move(*opened));
  }
  ~KernelCmTest() override {
    cm_.reset();
    EXPECT_EQ(kernel_.ids(), 0U);
    EXPECT_EQ(kernel_.channels(), 0U);
    EXPECT_EQ(kernel_.unacknowledged(), 0U);
  }
  IdNumber make() {
    const auto id = cm_->create(KernelCm::Space::Ib);
    EXPECT_TRUE(id.has_value());
    return id.value_or(0);
  }
  std::optional<CmEvent> poll() {
    const auto event = cm_->poll_event();
    EXPECT_TRUE(event.has_value());
    return event.value_or(std::nullopt);
  }

  test::FakeRdmaCm kernel_;
  std::optional<KernelCm> cm_;
};

TEST_F(KernelCmTest, CallsOfAnIdThatIsGone) {
  const IdNumber id = make();
  cm_->destroy(id);
  cm_->destroy(id);
  EXPECT_EQ(cm_->ids(), 0U);
  EXPECT_TRUE(cm_->listen(id, ib(), 1).error().is(Errc::NotFound));
  EXPECT_TRUE(cm_->resolve_address(id, ib(), ib(7), seconds(1)).error().is(Errc::NotFound));
  EXPECT_TRUE(cm_->set_path(id, {}).error().is(Errc::NotFound));
  EXPECT_TRUE(cm_->connect(id, {}).error().is(Errc::NotFound));
  EXPECT_TRUE(cm_->accept(id, {}).error().is(Errc::NotFound));
  EXPECT_TRUE(cm_->establish(id).error().is(Errc::NotFound));
  EXPECT_TRUE(cm_->reject(id, {}, false).error().is(Errc::NotFound));
  EXPECT_TRUE(cm_->notify_established(id).error().is(Errc::NotFound));
  EXPECT_TRUE(cm_->disconnect(id).error().is(Errc::NotFound));
  EXPECT_NE(make(), id) << "numbers are not used twice";
}

TEST_F(KernelCmTest, ErrorsAreTheCallsOwn) {
  const IdNumber id = make();
  struct Case {
    const char* call;
    int error;
    Errc kind;
  };
  for (const Case& c :
       {Case{"disconnect", EINVAL, Errc::InvalidState},
        Case{"disconnect", ENOMEM, Errc::NoResources},
        Case{"disconnect", EACCES, Errc::NoPermission},
        Case{"disconnect", ENODEV, Errc::PathUnresolved},
        Case{"disconnect", EADDRINUSE, Errc::Busy}, Case{"disconnect", ETIMEDOUT, Errc::Timeout}}) {
    kernel_.failing = c.call;
    kernel_.error = c.error;
    const auto done = cm_->disconnect(id);
    ASSERT_FALSE(done.has_value());
    EXPECT_TRUE(done.error().is(c.kind)) << done.error().what();
    EXPECT_EQ(done.error().error_number(), c.error);
    EXPECT_EQ(done.error().what().find("rdma_disconnect"), 0U);
  }
}

TEST_F(KernelCmTest, EventsOfNobodyAreGivenBack) {
  const IdNumber id = make();
  rdma_cm_id* const mine = kernel_.only_id();
  rdma_cm_id stranger{};
  stranger.channel = mine->channel;
  kernel_.push(RDMA_CM_EVENT_ESTABLISHED, &stranger);
  kernel_.push(RDMA_CM_EVENT_UNREACHABLE, mine, -ETIMEDOUT);
  const auto event = poll();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->id, id);
  EXPECT_EQ(event->kind, CmEventKind::Unreachable);
  EXPECT_EQ(event->status, -ETIMEDOUT);
  EXPECT_EQ(cm_->odd_events(), 1U);
  EXPECT_FALSE(poll().has_value());
}

TEST_F(KernelCmTest, ARequestThatMakesNoSenseLeavesNoId) {
  make();
  rdma_cm_id* const listener = kernel_.only_id();
  rdma_conn_param good{};
  good.qp_num = 0xFFFFFF;
  good.retry_count = 7;
  good.rnr_retry_count = 7;
  using Change = void (*)(rdma_conn_param&);
  const Change changes[] = {
      [](rdma_conn_param& p) { p.qp_num = 0x1000000; },
      [](rdma_conn_param& p) { p.retry_count = 8; },
      [](rdma_conn_param& p) { p.rnr_retry_count = 8; },
  };
  for (const Change change : changes) {
    rdma_conn_param values = good;
    change(values);
    kernel_.push(RDMA_CM_EVENT_CONNECT_REQUEST, kernel_.make_id(listener->channel), 0, values, {},
                 listener);
  }
  // Of a listener that we do not have.
  rdma_cm_id stranger{};
  kernel_.push(RDMA_CM_EVENT_CONNECT_REQUEST, kernel_.make_id(listener->channel), 0, good, {},
               &stranger);
  EXPECT_FALSE(poll().has_value());
  EXPECT_EQ(cm_->odd_events(), 4U);
  EXPECT_EQ(kernel_.ids(), 1U);

  kernel_.push(RDMA_CM_EVENT_CONNECT_REQUEST, kernel_.make_id(listener->channel), 0, good, {},
               listener);
  const auto event = poll();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->values.qpn, Qpn(0xFFFFFF));
  EXPECT_TRUE(event->values.private_data.empty());
  EXPECT_FALSE(event->path.has_value());
  EXPECT_EQ(cm_->ids(), 2U);
}

TEST_F(KernelCmTest, AnInterruptedReadIsRepeatedAndAFailedOneTold) {
  make();
  kernel_.push(RDMA_CM_EVENT_ADDR_RESOLVED, kernel_.only_id());
  kernel_.failing = "get_cm_event";
  kernel_.error = EINTR;
  EXPECT_TRUE(poll().has_value());
  kernel_.failing = "get_cm_event";
  kernel_.error = EIO;
  const auto event = cm_->poll_event();
  ASSERT_FALSE(event.has_value());
  EXPECT_EQ(event.error().error_number(), EIO);
}

TEST(SocketAddress, ThereAndBack) {
  std::array<std::uint8_t, 16> v4{};
  v4[10] = v4[11] = 0xFF;
  v4[15] = 9;
  for (const CmAddress& address :
       {CmAddress(ib(0x013F0007)), CmAddress(IpAddress{Gid(v4), 80, 0}),
        CmAddress(IpAddress{Gid::make(0xFE80000000000000, Guid(3)), 81, 4}),
        CmAddress(IpAddress{Gid::make(0xFD00000000000000, Guid(3)), 82, 0})}) {
    SocketAddress source = to_source(address);
    EXPECT_EQ(from_socket(&source.any), address);
    SocketAddress destination = to_destination(address);
    EXPECT_EQ(from_socket(&destination.any), address);
  }
  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_FALSE(from_socket(&other).has_value());
  // All zeros: any address of the host.
  SocketAddress any = to_source(IpAddress{Gid(), 7, 0});
  EXPECT_EQ(any.ipv6.sin6_family, AF_INET6);
}

}  // namespace
}  // namespace wireup::rdmacm
