// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <set>
#include <string>

#include "verbs/fake_verbs.hpp"
#include "verbs/rc_qp.hpp"
#include "verbs/ud_endpoint.hpp"

namespace wireup::verbs {
namespace {

/// All that the library does with a device; the first error ends it.
Result<> use_everything(const Ops& ops) {
  auto port = open_port({"fake0", 1}, ops);
  if (!port) {
    return fail(port.error());
  }
  const Device& device = port->device;
  auto pd = Pd::open(device);
  if (!pd) {
    return fail(pd.error());
  }
  auto cq = Cq::open(device, 64);
  if (!cq) {
    return fail(cq.error());
  }
  auto qp = open_rc_qp(*pd, {}, cq->raw(), cq->raw());
  if (!qp) {
    return fail(qp.error());
  }
  for (const auto& step :
       {to_init(*qp, 1, 0), to_rtr(*qp, {}), to_rts(*qp, {}), to_error(*qp), to_reset(*qp)}) {
    if (!step) {
      return step;
    }
  }
  auto endpoint = UdEndpoint::open(
      device, {.qkey = QKey(0x11), .send_depth = 2, .receive_depth = 20, .message_size = 256});
  if (!endpoint) {
    return fail(endpoint.error());
  }
  if (auto done = endpoint->attach(Gid::make(0xFF15'0000'0000'0000, Guid(1)), Lid(0xC001)); !done) {
    return done;
  }
  const std::vector<std::uint8_t> message(256, 0x5A);
  UdDestination destination;
  destination.dlid = Lid(9);
  if (auto done = endpoint->send(destination, message); !done) {
    return done;
  }
  auto count = endpoint->poll([](const UdDatagram&) {}, 16);
  if (!count) {
    return fail(count.error());
  }
  return endpoint->arm();
}

TEST(VerbsFailure, EveryCallsFailureIsReportedAndLeavesNothing) {
  std::uint64_t total = 0;
  {
    FakeVerbs fake;
    ASSERT_TRUE(use_everything(FakeVerbs::ops()));
    EXPECT_EQ(fake.alive(), 0U);
    total = fake.calls();
  }
  std::set<std::string> failed;
  for (std::uint64_t nth = 1; nth <= total; ++nth) {
    FakeVerbs fake;
    fake.fail_call(nth, EIO);
    const auto done = use_everything(FakeVerbs::ops());
    EXPECT_FALSE(done) << "call " << nth << ", " << fake.failed_call();
    if (!done) {
      EXPECT_NE(std::string(done.error().what()), "") << fake.failed_call();
    }
    EXPECT_EQ(fake.alive(), 0U) << "call " << nth << ", " << fake.failed_call();
    failed.insert(fake.failed_call());
  }
  for (const char* call :
       {"get_device_list", "open_device", "query_device", "query_port", "query_gid", "query_pkey",
        "alloc_pd", "reg_mr", "create_comp_channel", "create_cq", "create_qp", "modify_qp",
        "post_recv", "post_send", "create_ah", "attach_mcast", "poll_cq", "req_notify_cq",
        "get_cq_event"}) {
    EXPECT_TRUE(failed.contains(call)) << call << " was never made to fail";
  }
}

TEST(VerbsFailure, NamesStepDeviceAndReason) {
  FakeVerbs fake;
  fake.fail_every("create_qp", EINVAL);
  const auto done = use_everything(FakeVerbs::ops());
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.error().is(Errc::NoResources));
  const std::string text(done.error().what());
  for (const char* part : {"RC QP", "64 sends", "fake0", "Invalid argument"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(VerbsFailure, APrivilegedQKeyNeedsAPrivilege) {
  FakeVerbs fake;
  auto device = Device::open("fake0", FakeVerbs::ops());
  ASSERT_TRUE(device);
  fake.fail_every("modify_qp", EPERM);
  const auto endpoint = UdEndpoint::open(*device, {.qkey = QKey(0x80010000)});
  ASSERT_FALSE(endpoint);
  EXPECT_TRUE(endpoint.error().is(Errc::NoPermission));
  EXPECT_NE(endpoint.error().what().find("CAP_NET_RAW"), std::string_view::npos);
}

TEST(VerbsFailure, NoMemoryUnderALimitIsTheLimit) {
  // This process may hold CAP_IPC_LOCK, which makes the limit not the reason.
  const Error error =
      creation_error("a thing of 100 entries", "fake0", ENOMEM, std::size_t{300} * 1024);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  if (error.is(Errc::MemlockLimit)) {
    const std::string text(error.what());
    EXPECT_NE(text.find("300 KiB"), std::string::npos) << text;
    EXPECT_NE(text.find(std::to_string(limit.rlim_cur / 1024) + " KiB"), std::string::npos) << text;
  } else {
    EXPECT_TRUE(error.is(Errc::NoResources));
    EXPECT_EQ(error.error_number(), ENOMEM);
  }
}

}  // namespace
}  // namespace wireup::verbs
