// SPDX-License-Identifier: BSD-3-Clause
//
// A port without privilege on a node whose kernel has rdma_cm, which is the test's own: it resolves
// every address and route at once.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>

#include "acm/driver/unprivileged_port.hpp"
#include "acm/temporary_directory.hpp"
#include "rdmacm/ops.hpp"

namespace wireup::acm {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t kPrefix = 0xFE80000000000000;

verbs::PortInfo own_port() {
  verbs::PortInfo port;
  port.device = "softhca0";
  port.port = 1;
  port.gid = Gid::make(kPrefix, Guid(0x101));
  port.lid = Lid(4);
  port.sm_lid = Lid(1);
  port.pkeys = {PKey(0xFFFF)};
  port.active_mtu = 4;
  port.active_rate = 16;
  port.active = true;
  port.state = "ACTIVE";
  return port;
}

Gid peer() {
  return Gid::make(kPrefix, Guid(0x201));
}

struct Kernel {
  rdma_event_channel channel{};
  std::deque<rdma_cm_event> events;
  ibv_sa_path_rec path{};
  bool fails = false;
};
Kernel* kernel = nullptr;

void happens(rdma_cm_id* id, rdma_cm_event_type type, int status) {
  rdma_cm_event event{};
  event.id = id;
  event.event = type;
  event.status = status;
  kernel->events.push_back(event);
  const std::uint64_t one = 1;
  ASSERT_EQ(write(kernel->channel.fd, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

rdma_event_channel* create_event_channel() {
  kernel->channel.fd = eventfd(0, EFD_CLOEXEC);
  return &kernel->channel;
}
void destroy_event_channel(rdma_event_channel* channel) {
  close(channel->fd);
}
int create_id(rdma_event_channel* /*channel*/, rdma_cm_id** id, void* /*context*/,
              rdma_port_space /*space*/) {
  *id = std::make_unique<rdma_cm_id>().release();
  return 0;
}
int destroy_id(rdma_cm_id* id) {
  const std::unique_ptr<rdma_cm_id> owned(id);
  return 0;
}
int resolve_addr(rdma_cm_id* id, sockaddr* /*source*/, sockaddr* /*to*/, int /*timeout_ms*/) {
  happens(id, kernel->fails ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED,
          kernel->fails ? -EHOSTUNREACH : 0);
  return 0;
}
int resolve_route(rdma_cm_id* id, int /*timeout_ms*/) {
  id->route.path_rec = &kernel->path;
  id->route.num_paths = 1;
  happens(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  return 0;
}
int get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (kernel->events.empty()) {
    std::uint64_t count = 0;
    static_cast<void>(!read(channel->fd, &count, sizeof(count)));
    errno = EAGAIN;
    return -1;
  }
  *event = std::make_unique<rdma_cm_event>(kernel->events.front()).release();
  kernel->events.pop_front();
  return 0;
}
int ack_cm_event(rdma_cm_event* event) {
  const std::unique_ptr<rdma_cm_event> owned(event);
  return 0;
}

constexpr rdmacm::Ops kOps{create_event_channel, destroy_event_channel, create_id,    destroy_id,
                           resolve_addr,         resolve_route,         get_cm_event, ack_cm_event};

class UnprivilegedKernel : public testing::Test {
 protected:
  UnprivilegedKernel() {
    kernel = &kernel_;
    std::copy_n(own_port().gid.bytes().begin(), 16, std::begin(kernel_.path.sgid.raw));
    std::copy_n(peer().bytes().begin(), 16, std::begin(kernel_.path.dgid.raw));
    kernel_.path.slid = htons(4);
    kernel_.path.dlid = htons(9);
    kernel_.path.pkey = htons(0xFFFF);
    kernel_.path.mtu = 4;
    kernel_.path.rate = 16;
  }
  ~UnprivilegedKernel() override {
    port_.reset();
    kernel = nullptr;
  }
  /// Without an ibacm.
  [[nodiscard]] UnprivilegedPort::Answer ask(const mad::AcmAddress& address) {
    if (port_ == nullptr) {
      UnprivilegedPort::Options options;
      options.ibacm.socket = directory_.path() + "/nobody";
      options.kernel_device = "/dev/null";
      options.kernel_ops = &kOps;
      options.lacks = Error::make(Errc::NoPermission, "CAP_NET_RAW is missing");
      options.look = [this]() -> Result<verbs::PortInfo> { return seen_; };
      auto opened = UnprivilegedPort::open(options, now_);
      EXPECT_TRUE(opened.has_value());
      port_ = std::move(*opened);
    }
    port_->ask(1, address, now_ + seconds(5), now_);
    // The kernel's events wake whoever waits.
    for (int turn = 0; turn < 10; ++turn) {
      port_->progress(now_);
      if (auto answer = port_->poll_answer()) {
        return *answer;
      }
      pollfd descriptor{port_->fd(), POLLIN, 0};
      EXPECT_EQ(poll(&descriptor, 1, 5000), 1);
    }
    ADD_FAILURE() << "no answer";
    return {0, fail(Errc::Internal), PathOrigin::Local};
  }

  test::TemporaryDirectory directory_;
  verbs::PortInfo seen_ = own_port();
  Kernel kernel_;
  std::unique_ptr<UnprivilegedPort> port_;
  Instant now_{seconds(1000)};
};

TEST_F(UnprivilegedKernel, IsAskedWhereThereIsNoIbacm) {
  const auto answer = ask(mad::AcmAddress::gid(peer()));
  ASSERT_TRUE(answer.path.has_value()) << answer.path.error().what();
  EXPECT_EQ(answer.origin, PathOrigin::Kernel);
  EXPECT_EQ(answer.path->dlid, Lid(9));
}

TEST_F(UnprivilegedKernel, IsNotBelievedEither) {
  kernel_.path.slid = htons(77);
  const auto answer = ask(mad::AcmAddress::gid(peer()));
  ASSERT_FALSE(answer.path.has_value());
  EXPECT_NE(answer.path.error().what().find("the kernel"), std::string_view::npos);
}

TEST_F(UnprivilegedKernel, SaysWhyItHasNoPath) {
  kernel_.fails = true;
  const auto answer = ask(mad::AcmAddress::gid(peer()));
  ASSERT_FALSE(answer.path.has_value());
  EXPECT_NE(answer.path.error().what().find("resolving the address"), std::string_view::npos);
  // A name is nothing for it: what is missing then is an ibacm.
  const auto name = ask(mad::AcmAddress::name("node2").value());
  ASSERT_FALSE(name.path.has_value());
  EXPECT_TRUE(name.path.error().is(Errc::NoPermission));
  EXPECT_EQ(name.path.error().what().find("no rdma_cm"), std::string_view::npos);
}

TEST_F(UnprivilegedKernel, IsAskedFromThePortsNewAddress) {
  EXPECT_TRUE(ask(mad::AcmAddress::gid(peer())).path.has_value());
  seen_.lid = Lid(5);
  now_ += seconds(1);
  port_->progress(now_);
  EXPECT_TRUE(port_->poll_changed());
  EXPECT_FALSE(ask(mad::AcmAddress::gid(peer())).path.has_value()) << "the kernel says LID 4";
  kernel_.path.slid = htons(5);
  EXPECT_TRUE(ask(mad::AcmAddress::gid(peer())).path.has_value());
}

}  // namespace
}  // namespace wireup::acm
