// SPDX-License-Identifier: BSD-3-Clause
//
// The calls of librdmacm for a path, their order, and what happens when each of them fails. The
// library and its kernel are the test's own.
#include "rdmacm/kernel_paths.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rdmacm/ops.hpp"
#include "rdmacm/route_record.hpp"

namespace wireup::rdmacm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kPrefix = 0xFE80000000000000;

/// What the calls were, and what they are to answer.
struct FakeCm {
  std::vector<std::string> calls;
  /// A call of this name fails, with this errno.
  std::string failing;
  int error = 0;
  rdma_event_channel channel{};
  std::deque<rdma_cm_event> events;
  std::set<rdma_cm_event*> out;
  std::set<rdma_cm_id*> ids;
  rdma_port_space space{};
  std::vector<std::uint8_t> source;
  std::vector<std::uint8_t> destination;
  int timeout_ms = 0;

  bool fails(const char* name) {
    calls.emplace_back(name);
    if (failing == name) {
      errno = error;
      return true;
    }
    return false;
  }
  void push(rdma_cm_event_type type, rdma_cm_id* id, int status = 0) {
    rdma_cm_event event{};
    event.id = id;
    event.event = type;
    event.status = status;
    events.push_back(event);
  }
};
FakeCm* cm = nullptr;

rdma_event_channel* create_event_channel() {
  if (cm->fails("create_event_channel")) {
    return nullptr;
  }
  cm->channel.fd = eventfd(0, EFD_CLOEXEC);
  return &cm->channel;
}
void destroy_event_channel(rdma_event_channel* channel) {
  cm->calls.emplace_back("destroy_event_channel");
  EXPECT_TRUE(cm->ids.empty()) << "ids go before their channel";
  close(channel->fd);
}
int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* /*context*/,
              rdma_port_space space) {
  if (cm->fails("create_id")) {
    return -1;
  }
  auto made = std::make_unique<rdma_cm_id>();
  made->channel = channel;
  cm->space = space;
  *id = made.release();
  cm->ids.insert(*id);
  return 0;
}
int destroy_id(rdma_cm_id* id) {
  cm->calls.emplace_back("destroy_id");
  EXPECT_TRUE(cm->out.empty()) << "the library would wait for the event for ever";
  EXPECT_EQ(cm->ids.erase(id), 1U);
  const std::unique_ptr<rdma_cm_id> owned(id);
  std::erase_if(cm->events, [id](const rdma_cm_event& event) { return event.id == id; });
  return 0;
}
std::vector<std::uint8_t> bytes_of(const sockaddr* address) {
  if (address == nullptr) {
    return {};
  }
  const std::size_t size = address->sa_family == AF_INET    ? sizeof(sockaddr_in)
                           : address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                            : sizeof(sockaddr_ib);
  std::vector<std::uint8_t> bytes(size);
  std::memcpy(bytes.data(), address, size);
  return bytes;
}
int resolve_addr(rdma_cm_id* /*id*/, sockaddr* source, sockaddr* destination, int timeout_ms) {
  cm->source = bytes_of(source);
  cm->destination = bytes_of(destination);
  cm->timeout_ms = timeout_ms;
  return cm->fails("resolve_addr") ? -1 : 0;
}
int resolve_route(rdma_cm_id* /*id*/, int timeout_ms) {
  cm->timeout_ms = timeout_ms;
  return cm->fails("resolve_route") ? -1 : 0;
}
int get_cm_event(rdma_event_channel* /*channel*/, rdma_cm_event** event) {
  if (cm->events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *event = new rdma_cm_event(cm->events.front());
  cm->events.pop_front();
  cm->out.insert(*event);
  return 0;
}
int ack_cm_event(rdma_cm_event* event) {
  EXPECT_EQ(cm->out.erase(event), 1U);
  const std::unique_ptr<rdma_cm_event> owned(event);
  return 0;
}

constexpr Ops kFakeOps{create_event_channel, destroy_event_channel, create_id,    destroy_id,
                       resolve_addr,         resolve_route,         get_cm_event, ack_cm_event};

Gid own() {
  return Gid::make(kPrefix, Guid(0x101));
}
Gid peer() {
  return Gid::make(kPrefix, Guid(0x201));
}
mad::AcmAddress peer_address() {
  return mad::AcmAddress::gid(peer());
}

ibv_sa_path_rec kernel_path() {
  ibv_sa_path_rec path{};
  std::copy_n(peer().bytes().begin(), Gid::kSize, std::begin(path.dgid.raw));
  std::copy_n(own().bytes().begin(), Gid::kSize, std::begin(path.sgid.raw));
  path.dlid = htons(0x0102);
  path.slid = htons(0x0304);
  path.flow_label = htonl(0x12345);
  path.hop_limit = 1;
  path.traffic_class = 7;
  path.reversible = 1;
  path.numb_path = 1;
  path.pkey = htons(0x8001);
  path.sl = 5;
  path.mtu_selector = 2;
  path.mtu = 4;
  path.rate_selector = 2;
  path.rate = 16;
  path.packet_life_time_selector = 2;
  path.packet_life_time = 18;
  path.preference = 3;
  return path;
}

class KernelPathsTest : public testing::Test {
 protected:
  KernelPathsTest() { cm = &cm_; }
  ~KernelPathsTest() override {
    paths_.reset();
    EXPECT_TRUE(cm_.ids.empty());
    EXPECT_TRUE(cm_.out.empty());
    cm = nullptr;
  }
  void open() {
    auto opened = KernelPaths::open(options(), &kFakeOps);
    ASSERT_TRUE(opened.has_value()) << opened.error().what();
    paths_.emplace(std::move(*opened));
  }
  [[nodiscard]] static KernelPaths::Options options() { return {own(), PKey(0x8001), "/dev/null"}; }
  KernelPaths& paths() { return *paths_; }
  void ask(KernelPaths::QuestionId id, const mad::AcmAddress& to = peer_address()) {
    paths().ask(id, to, ServiceId(0x42), now_ + seconds(5), now_);
  }
  [[nodiscard]] rdma_cm_id* only_id() {
    EXPECT_EQ(cm_.ids.size(), 1U);
    return *cm_.ids.begin();
  }
  void happens(rdma_cm_event_type type, int status = 0) {
    cm_.push(type, only_id(), status);
    paths().progress(now_);
  }
  [[nodiscard]] Error error_of_answer(KernelPaths::QuestionId id) {
    const auto answer = paths().poll_answer();
    EXPECT_TRUE(answer.has_value() && !answer->path.has_value());
    if (!answer.has_value() || answer->path) {
      return Error(Errc::Internal);
    }
    EXPECT_EQ(answer->id, id);
    EXPECT_TRUE(cm_.ids.empty()) << "the id is given back";
    return answer->path.error();
  }

  FakeCm cm_;
  Instant now_{seconds(1000)};

 private:
  std::optional<KernelPaths> paths_;
};

TEST_F(KernelPathsTest, AddressThenRouteThenTheRecord) {
  open();
  EXPECT_NE(fcntl(paths().fd(), F_GETFL) & O_NONBLOCK, 0);
  ask(9);
  EXPECT_EQ(cm_.space, RDMA_PS_IB);
  EXPECT_EQ(cm_.timeout_ms, 5000);
  sockaddr_ib to{};
  ASSERT_EQ(cm_.destination.size(), sizeof(to));
  std::memcpy(&to, cm_.destination.data(), sizeof(to));
  EXPECT_EQ(to.sib_family, AF_IB);
  EXPECT_EQ(ntohs(to.sib_pkey), 0x8001);
  EXPECT_EQ(std::memcmp(to.sib_addr.sib_raw, peer().bytes().data(), Gid::kSize), 0);
  EXPECT_EQ(be64toh(to.sib_sid), 0x42U);
  sockaddr_ib from{};
  ASSERT_EQ(cm_.source.size(), sizeof(from));
  std::memcpy(&from, cm_.source.data(), sizeof(from));
  EXPECT_EQ(std::memcmp(from.sib_addr.sib_raw, own().bytes().data(), Gid::kSize), 0);
  // The kernel binds the source to a port space and refuses what is in none.
  EXPECT_EQ(be64toh(from.sib_sid), 0x00000000013F0000U);
  EXPECT_EQ(be64toh(from.sib_sid_mask), 0xFFFFFFFFFFFF0000U);

  now_ += seconds(2);
  happens(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(cm_.timeout_ms, 3000) << "what is left";
  EXPECT_FALSE(paths().poll_answer().has_value());
  EXPECT_EQ(paths().pending(), 1U);
  ibv_sa_path_rec path = kernel_path();
  only_id()->route.path_rec = &path;
  only_id()->route.num_paths = 1;
  happens(RDMA_CM_EVENT_ROUTE_RESOLVED);
  const auto answer = paths().poll_answer();
  ASSERT_TRUE(answer.has_value() && answer->path.has_value());
  EXPECT_EQ(answer->id, 9U);
  EXPECT_EQ(answer->path->dgid, peer());
  EXPECT_EQ(answer->path->dlid, Lid(0x0102));
  EXPECT_EQ(answer->path->sl, Sl(5));
  EXPECT_EQ(paths().pending(), 0U);
  EXPECT_EQ(cm_.calls, (std::vector<std::string>{"create_event_channel", "create_id",
                                                 "resolve_addr", "resolve_route", "destroy_id"}));
}

TEST_F(KernelPathsTest, IpAddressesAreTheKernelsOwn) {
  open();
  ask(1, mad::AcmAddress::ipv4({10, 77, 0, 2}));
  EXPECT_EQ(cm_.space, RDMA_PS_UDP);
  EXPECT_TRUE(cm_.source.empty()) << "by its routes";
  sockaddr_in ipv4{};
  ASSERT_EQ(cm_.destination.size(), sizeof(ipv4));
  std::memcpy(&ipv4, cm_.destination.data(), sizeof(ipv4));
  EXPECT_EQ(ntohl(ipv4.sin_addr.s_addr), 0x0A4D0002U);
  happens(RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
  EXPECT_TRUE(error_of_answer(1).is(Errc::PathUnresolved));
  std::array<std::uint8_t, 16> address{0xFD};
  ask(2, mad::AcmAddress::ipv6(address));
  sockaddr_in6 ipv6{};
  ASSERT_EQ(cm_.destination.size(), sizeof(ipv6));
  std::memcpy(&ipv6, cm_.destination.data(), sizeof(ipv6));
  EXPECT_EQ(ipv6.sin6_addr.s6_addr[0], 0xFD);
}

TEST_F(KernelPathsTest, NamesAndLidsAreNot) {
  open();
  ask(1, mad::AcmAddress::name("node2").value());
  EXPECT_TRUE(error_of_answer(1).is(Errc::Unsupported));
  ask(2, mad::AcmAddress::lid(Lid(4)));
  EXPECT_TRUE(error_of_answer(2).is(Errc::Unsupported));
}

TEST_F(KernelPathsTest, EachCallMayFail) {
  open();
  cm_.failing = "create_id";
  cm_.error = ENOMEM;
  ask(1);
  EXPECT_TRUE(error_of_answer(1).is(Errc::NoResources));

  cm_.failing = "resolve_addr";
  cm_.error = ENODEV;
  ask(2);
  Error error = error_of_answer(2);
  EXPECT_TRUE(error.is(Errc::PathUnresolved));
  EXPECT_NE(error.what().find("rdma_resolve_addr"), std::string_view::npos) << error.what();

  cm_.failing.clear();
  ask(3);
  cm_.failing = "resolve_route";
  cm_.error = EINVAL;
  happens(RDMA_CM_EVENT_ADDR_RESOLVED);
  error = error_of_answer(3);
  EXPECT_TRUE(error.is(Errc::PathUnresolved));
  EXPECT_NE(error.what().find("rdma_resolve_route"), std::string_view::npos) << error.what();
}

TEST_F(KernelPathsTest, EachEventMayBeAnError) {
  open();
  ask(1);
  happens(RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
  EXPECT_TRUE(error_of_answer(1).is(Errc::PathUnresolved));
  ask(2);
  happens(RDMA_CM_EVENT_ADDR_RESOLVED);
  happens(RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT);
  EXPECT_TRUE(error_of_answer(2).is(Errc::Timeout)) << "no SA";
  ask(3);
  happens(RDMA_CM_EVENT_DEVICE_REMOVAL);
  EXPECT_TRUE(error_of_answer(3).is(Errc::PathUnresolved));
  ask(4);
  happens(RDMA_CM_EVENT_ROUTE_RESOLVED);
  EXPECT_TRUE(error_of_answer(4).is(Errc::Malformed)) << "a route without a path";
  ask(5);
  happens(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(paths().pending(), 1U) << "not ours";
}

TEST_F(KernelPathsTest, ADeadlineEndsAQuestionAndItsLateEventIsNobodys) {
  open();
  ask(1);
  EXPECT_EQ(paths().poll_timeout(), now_ + seconds(5));
  rdma_cm_id* const id = only_id();
  now_ += seconds(5);
  paths().progress(now_);
  EXPECT_TRUE(error_of_answer(1).is(Errc::Timeout));
  EXPECT_FALSE(paths().poll_timeout().has_value());
  // As if it had been on its way when the id was given back.
  cm_.push(RDMA_CM_EVENT_ADDR_RESOLVED, id);
  paths().progress(now_);
  EXPECT_FALSE(paths().poll_answer().has_value());
}

TEST_F(KernelPathsTest, SeveralQuestionsAtATime) {
  open();
  ask(1);
  rdma_cm_id* const first = only_id();
  ask(2);
  cm_.push(RDMA_CM_EVENT_ADDR_ERROR, first, -EHOSTUNREACH);
  paths().progress(now_);
  const auto answer = paths().poll_answer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->id, 1U);
  EXPECT_EQ(paths().pending(), 1U);
  // The other one is ended with the object.
}

TEST_F(KernelPathsTest, WhereTheKernelHasNone) {
  KernelPaths::Options missing = options();
  missing.device = "/nonexistent/rdma_cm";
  const auto opened = KernelPaths::open(missing, &kFakeOps);
  ASSERT_FALSE(opened.has_value());
  EXPECT_TRUE(opened.error().is(Errc::Unsupported));
  EXPECT_NE(opened.error().what().find("/nonexistent/rdma_cm"), std::string_view::npos);
  EXPECT_TRUE(cm_.calls.empty()) << "nothing was called";
  cm_.failing = "create_event_channel";
  cm_.error = ENODEV;
  EXPECT_TRUE(KernelPaths::open(options(), &kFakeOps).error().is(Errc::Unsupported));
  cm_.error = EACCES;
  EXPECT_TRUE(KernelPaths::open(options(), &kFakeOps).error().is(Errc::NoPermission));
  cm_.error = EMFILE;
  EXPECT_TRUE(KernelPaths::open(options(), &kFakeOps).error().is(Errc::NoResources));
}

TEST(KernelLibrary, IsThereWithItsCalls) {
  const auto library = load_library();
  ASSERT_TRUE(library.has_value()) << library.error().what();
  EXPECT_NE((*library)->resolve_route, nullptr);
  EXPECT_NE((*library)->disconnect, nullptr);
  EXPECT_EQ(*library, *load_library());
}

TEST(RouteRecord, EveryFieldInItsByteOrder) {
  const auto record = to_record(kernel_path());
  ASSERT_TRUE(record.has_value());
  mad::PathRecord expected;
  expected.dgid = peer();
  expected.sgid = own();
  expected.dlid = Lid(0x0102);
  expected.slid = Lid(0x0304);
  expected.flow_label = FlowLabel(0x12345);
  expected.hop_limit = 1;
  expected.traffic_class = 7;
  expected.reversible = true;
  expected.numb_path = 1;
  expected.pkey = PKey(0x8001);
  expected.sl = Sl(5);
  expected.mtu_selector = mad::Selector::Exactly;
  expected.mtu = 4;
  expected.rate_selector = mad::Selector::Exactly;
  expected.rate = 16;
  expected.packet_lifetime_selector = mad::Selector::Exactly;
  expected.packet_lifetime = 18;
  expected.preference = 3;
  EXPECT_EQ(*record, expected);
}

TEST(RouteRecord, ValuesThatNoRecordHas) {
  using Change = void (*)(ibv_sa_path_rec&);
  const Change changes[] = {
      [](ibv_sa_path_rec& p) { p.sl = 16; },
      [](ibv_sa_path_rec& p) { p.flow_label = htonl(1U << 20U); },
      [](ibv_sa_path_rec& p) { p.mtu = 64; },
      [](ibv_sa_path_rec& p) { p.rate = 64; },
      [](ibv_sa_path_rec& p) { p.packet_life_time = 64; },
      [](ibv_sa_path_rec& p) { p.mtu_selector = 4; },
  };
  for (const Change change : changes) {
    ibv_sa_path_rec path = kernel_path();
    change(path);
    EXPECT_TRUE(to_record(path).error().is(Errc::Malformed));
  }
}

}  // namespace
}  // namespace wireup::rdmacm
