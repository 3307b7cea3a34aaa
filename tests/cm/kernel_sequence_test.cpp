// SPDX-License-Identifier: BSD-3-Clause
//
// The calls of librdmacm that a kernel carrier makes, in their order and with all their arguments,
// byte for byte. The events are the test's own.
#include <fcntl.h>
#include <infiniband/ib.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "cm/kernel_rank.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Bytes = std::vector<std::uint8_t>;
using Names = std::vector<std::string>;

constexpr Medium kIb = Medium::Infiniband;
constexpr Medium kRoce = Medium::Roce;

/// Writes `values` at an offset.
void put(Bytes& to, std::size_t offset, std::initializer_list<std::uint8_t> values) {
  ASSERT_LE(offset + values.size(), to.size());
  std::copy(values.begin(), values.end(), to.begin() + static_cast<std::ptrdiff_t>(offset));
}

void put_native(Bytes& to, std::size_t offset, std::uint16_t value) {
  std::memcpy(to.data() + offset, &value, sizeof(value));
}

/// sockaddr_ib: family 0, P_Key 2, flow 4, GID 8, service id 24, mask 32, scope 40.
Bytes ib_address(std::uint8_t number, std::initializer_list<std::uint8_t> service,
                 std::initializer_list<std::uint8_t> mask) {
  Bytes bytes(48);
  put_native(bytes, 0, 27);
  put(bytes, 2, {0x80, 0x01});
  put(bytes, 8, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xC9, 0x03, 0, 0, 0, number});
  put(bytes, 24, service);
  put(bytes, 32, mask);
  return bytes;
}

/// sockaddr_in: family 0, port 2, address 4.
Bytes ip_address(std::uint8_t number, std::uint16_t port) {
  Bytes bytes(16);
  put_native(bytes, 0, AF_INET);
  put(bytes, 2, {static_cast<std::uint8_t>(port >> 8U), static_cast<std::uint8_t>(port)});
  put(bytes, 4, {10, 9, 0, number});
  return bytes;
}

/// ibv_path_data: flags GMP 1 | PRIMARY 2 | OUTBOUND 8 | INBOUND_REVERSE 32, 4 reserved bytes, then
/// the PathRecord of the wire.
Bytes path_data() {
  Bytes bytes(72);
  const std::uint32_t flags = 43;
  std::memcpy(bytes.data(), &flags, sizeof(flags));
  put(bytes, 52, {0x01, 0x23, 0x45});  // flow label, 20 bits after 4 reserved ones
  put(bytes, 56, {0x21, 0x81});        // traffic class; reversible, one path
  put(bytes, 62, {0x84, 0x90, 0x92});  // exactly MTU 4, rate 16, lifetime 18
  return bytes;
}

class KernelSequence : public testing::Test {
 protected:
  KernelSequence() { kernel_.is_simulated = false; }
  ~KernelSequence() override {
    if (rank_.has_value()) {
      rank_->close();
    }
    EXPECT_EQ(kernel_.ids(), 0U);
    EXPECT_EQ(kernel_.channels(), 0U);
    EXPECT_EQ(kernel_.unacknowledged(), 0U);
  }
  KernelRank& start(Medium medium) { return rank_.emplace(medium, std::uint8_t{1}); }
  KernelRank& rank() { return *rank_; }
  void settle() {
    for (int i = 0; i < 100 && rank().turn(now_); ++i) {
    }
  }
  Handle connect(Medium medium, Duration limit = seconds(30)) {
    const ServiceId service(medium == kIb ? 0x00000000013F2003 : 0x0000000001064711);
    const Handle handle =
        rank().connect(rank().connect_params(KernelRank::gid_of(medium, 2), 0x0102, service,
                                             0x0A0B0C, now_ + limit),
                       now_);
    settle();
    return handle;
  }
  void happens(rdma_cm_event_type type, int status = 0, const rdma_conn_param& values = {},
               const Bytes& data = {}) {
    kernel_.push(type, kernel_.only_id(), status, values, data);
    settle();
  }
  /// The events of an active connect up to the REP.
  Handle connect_to_reply(Medium medium) {
    const Handle handle = connect(medium);
    happens(RDMA_CM_EVENT_ADDR_RESOLVED);
    happens(RDMA_CM_EVENT_ROUTE_RESOLVED);
    happens(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, reply_values(), Bytes(196));
    return handle;
  }
  /// As the kernel shows a REP of responder resources 4 and initiator depth 2.
  [[nodiscard]] static rdma_conn_param reply_values() {
    rdma_conn_param values{};
    values.responder_resources = 2;
    values.initiator_depth = 4;
    values.qp_num = 0x112233;
    values.rnr_retry_count = 1;
    return values;
  }
  void expect_request(const test::KernelCall& call) {
    EXPECT_EQ(call.private_data, (Bytes{7, 8, 9})) << "zeros are the kernel's to add";
    EXPECT_EQ(call.values.responder_resources, 3);
    EXPECT_EQ(call.values.initiator_depth, 5);
    EXPECT_EQ(call.values.flow_control, 0);
    EXPECT_EQ(call.values.retry_count, 6);
    EXPECT_EQ(call.values.rnr_retry_count, 2);
    EXPECT_EQ(call.values.srq, 1);
    EXPECT_EQ(call.values.qp_num, 0x0A0B0CU);
  }
  /// An incoming REQ on `listener`, on an id with a path as the kernel makes it of the REQ.
  test::FakeRdmaCm::Id* request(rdma_cm_id* listener, Medium medium, std::size_t room) {
    auto* const id = kernel_.make_id(listener->channel);
    const auto set = [](ibv_gid& to, const Gid& gid) {
      std::copy(gid.bytes().begin(), gid.bytes().end(), to.raw);
    };
    set(id->path.sgid, KernelRank::gid_of(medium, 1));
    set(id->path.dgid, KernelRank::gid_of(medium, 2));
    id->path.dlid = htons(0x0708);
    id->path.slid = htons(0x0506);
    id->path.pkey = htons(0x8001);
    id->path.sl = 3;
    id->path.mtu_selector = 2;
    id->path.mtu = 5;
    id->path.rate_selector = 2;
    id->path.rate = 7;
    id->path.packet_life_time_selector = 2;
    id->path.packet_life_time = 17;
    id->path.hop_limit = 1;
    id->route.path_rec = &id->path;
    id->route.num_paths = 1;
    rdma_conn_param values{};
    values.responder_resources = 5;
    values.initiator_depth = 3;
    values.retry_count = 7;
    values.rnr_retry_count = 6;
    values.qp_num = 0x445566;
    Bytes data(room);
    data[0] = 0xAB;
    kernel_.push(RDMA_CM_EVENT_CONNECT_REQUEST, id, 0, values, data, listener);
    settle();
    return id;
  }
  rdma_cm_id* listen() {
    rank().listen();
    return const_cast<rdma_cm_id*>(kernel_.last("listen").id);
  }

  test::FakeRdmaCm kernel_;
  Instant now_{seconds(100)};

 private:
  std::optional<KernelRank> rank_;
};

TEST_F(KernelSequence, TheChannelIsNonBlockingAndClosedOnExec) {
  start(kIb);
  EXPECT_NE(fcntl(rank().carrier().fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(rank().carrier().fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(KernelSequence, ActiveOnInfiniband) {
  start(kIb);
  connect(kIb);
  EXPECT_EQ(kernel_.names(), (Names{"create_event_channel", "create_id", "resolve_addr"}));
  EXPECT_EQ(kernel_.last("create_id").space, RDMA_PS_IB);
  const test::KernelCall& resolve = kernel_.last("resolve_addr");
  // From any port of the IB port space.
  EXPECT_EQ(resolve.source, ib_address(1, {0, 0, 0, 0, 0x01, 0x3F, 0, 0},
                                       {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0}));
  EXPECT_EQ(resolve.destination, ib_address(2, {0, 0, 0, 0, 0x01, 0x3F, 0x20, 0x03},
                                            {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}));
  EXPECT_EQ(resolve.number, 10'000) << "milliseconds";

  happens(RDMA_CM_EVENT_ADDR_RESOLVED);
  const test::KernelCall& option = kernel_.last("set_option");
  EXPECT_EQ(option.level, RDMA_OPTION_IB);
  EXPECT_EQ(option.option_name, RDMA_OPTION_IB_PATH);
  Bytes path = path_data();
  put(path, 16, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xC9, 0x03, 0, 0, 0, 2});
  put(path, 32, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xC9, 0x03, 0, 0, 0, 1});
  put(path, 48, {0x01, 0x02, 0x00, 0x01});  // DLID, SLID
  put(path, 55, {1});                       // hop limit
  put(path, 58, {0x80, 0x01, 0x00, 0x05});  // P_Key, SL
  EXPECT_EQ(option.option, path);

  happens(RDMA_CM_EVENT_ROUTE_RESOLVED);
  expect_request(kernel_.last("connect"));
  now_ += seconds(5);
  settle();
  EXPECT_GT(rank().engine().counters().retransmitted[mad::index_of(mad::CmKind::Req)], 0U);
  happens(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, reply_values(), Bytes(196));
  const auto reply = rank().all<RepReceived>();
  ASSERT_EQ(reply.size(), 1U);
  EXPECT_EQ(reply[0].rep.responder_resources, 4);
  EXPECT_EQ(reply[0].rep.initiator_depth, 2);
  EXPECT_EQ(rank().engine().state(reply[0].handle), State::Established);
  ASSERT_TRUE(rank().engine().disconnect(reply[0].handle, {}, now_).has_value());
  settle();
  happens(RDMA_CM_EVENT_DISCONNECTED);
  happens(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_EQ(kernel_.names(),
            (Names{"create_event_channel", "create_id", "resolve_addr", "set_option", "connect",
                   "establish", "disconnect",
                   "disconnect",  // the DREP, had theirs been a DREQ that crossed with ours
                   "destroy_id"}));
}

TEST_F(KernelSequence, ActiveOnRoce) {
  start(kRoce);
  connect(kRoce);
  EXPECT_EQ(kernel_.last("create_id").space, RDMA_PS_TCP);
  const test::KernelCall& resolve = kernel_.last("resolve_addr");
  EXPECT_EQ(resolve.source, ip_address(1, 0));
  EXPECT_EQ(resolve.destination, ip_address(2, 0x4711));

  happens(RDMA_CM_EVENT_ADDR_RESOLVED);
  Bytes path = path_data();
  put(path, 26, {0xFF, 0xFF, 10, 9, 0, 2});
  put(path, 42, {0xFF, 0xFF, 10, 9, 0, 1});
  put(path, 55, {64});
  put(path, 58, {0xFF, 0xFF, 0x00, 0x00});
  EXPECT_EQ(kernel_.last("set_option").option, path);
  happens(RDMA_CM_EVENT_ROUTE_RESOLVED);
  expect_request(kernel_.last("connect"));
  happens(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, reply_values(), Bytes(196));
  happens(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rank().all<Disconnected>().at(0).cause, DisconnectCause::ByPeer);
  happens(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_EQ(kernel_.names(),
            (Names{"create_event_channel", "create_id", "resolve_addr", "set_option", "connect",
                   "establish", "disconnect", "destroy_id"}));
}

TEST_F(KernelSequence, LinkLocalRoceAddressesHaveTheirInterface) {
  start(kRoce);
  KernelCarrier::Options options = KernelRank::options(kRoce, 1);
  options.scope_id = 7;
  auto carrier = KernelCarrier::open(options, &test::FakeRdmaCm::ops());
  ASSERT_TRUE(carrier.has_value());
  Engine engine(KernelRank::config(), Rng(1));
  ConnectParams params = rank().connect_params(Gid::make(0xFE80000000000000, Guid(2)), 0,
                                               ServiceId(0x01064711), 0x100, now_ + seconds(1));
  params.path.sgid = Gid::make(0xFE80000000000000, Guid(1));
  ASSERT_TRUE(engine.connect(params, now_).has_value());
  ASSERT_TRUE(carrier->send(*engine.poll_transmit(), now_).has_value());
  // sockaddr_in6: family 0, port 2, flow 4, address 8, scope 24.
  Bytes expected(28);
  put_native(expected, 0, AF_INET6);
  put(expected, 2, {0x47, 0x11});
  put(expected, 8, {0xFE, 0x80});
  put(expected, 23, {2});
  const std::uint32_t scope = 7;
  std::memcpy(expected.data() + 24, &scope, sizeof(scope));
  EXPECT_EQ(kernel_.last("resolve_addr").destination, expected);
}

TEST_F(KernelSequence, PassiveOnInfiniband) {
  start(kIb);
  rdma_cm_id* const listener = listen();
  EXPECT_EQ(kernel_.last("create_id").space, RDMA_PS_IB);
  EXPECT_EQ(kernel_.last("bind_addr").source,
            ib_address(1, {0, 0, 0, 0, 0x01, 0x3F, 0x20, 0x01},
                       {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}));
  EXPECT_EQ(kernel_.last("listen").number, 1024);
  EXPECT_EQ(rank().carrier().service_id(), ServiceId(0x00000000013F2001));

  request(listener, kIb, 92);
  const auto offered = rank().all<ReqReceived>();
  ASSERT_EQ(offered.size(), 1U);
  const mad::Req& req = offered[0].req;
  EXPECT_EQ(req.responder_resources, 3);
  EXPECT_EQ(req.initiator_depth, 5);
  EXPECT_EQ(req.primary.local_lid, Lid(0x0708));
  EXPECT_EQ(req.primary.remote_lid, Lid(0x0506));
  EXPECT_EQ(req.path_mtu, mad::CmMtu(5));
  EXPECT_EQ(req.starting_psn, derived_psn(Qpn(0x445566), std::array<std::uint8_t, 1>{0xAB}));
  const test::KernelCall& accept = kernel_.last("accept");
  EXPECT_EQ(accept.values.responder_resources, 4);
  EXPECT_EQ(accept.values.initiator_depth, 2);
  EXPECT_EQ(accept.values.rnr_retry_count, 1);
  EXPECT_EQ(accept.values.srq, 0);
  EXPECT_EQ(accept.values.flow_control, 0);
  EXPECT_EQ(accept.values.qp_num, 0x800000U);
  EXPECT_EQ(accept.private_data, (Bytes{5, 6}));
  happens(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(rank().all<Established>().size(), 1U);
  happens(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rank().all<Disconnected>().at(0).cause, DisconnectCause::ByPeer);
  happens(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_EQ(kernel_.names(), (Names{"create_event_channel", "create_id", "bind_addr", "listen",
                                    "accept", "disconnect", "destroy_id"}));
}

TEST_F(KernelSequence, PassiveOnRoce) {
  start(kRoce);
  rdma_cm_id* const listener = listen();
  EXPECT_EQ(kernel_.last("create_id").space, RDMA_PS_TCP);
  EXPECT_EQ(kernel_.last("bind_addr").source, ip_address(1, 0)) << "the kernel chooses";
  EXPECT_EQ(rank().carrier().service_id(), ServiceId(0x01060000 + 50000));
  request(listener, kRoce, 56);
  const auto offered = rank().all<ReqReceived>();
  ASSERT_EQ(offered.size(), 1U);
  EXPECT_EQ(offered[0].req.primary.local_lid, Lid(0)) << "what is in its place has no meaning";
  EXPECT_EQ(offered[0].req.primary.local_gid, KernelRank::gid_of(kRoce, 2));
  EXPECT_EQ(offered[0].from.dlid, Lid(0));
  EXPECT_EQ(offered[0].req.private_data, mad::private_data<92>(std::array<std::uint8_t, 1>{0xAB}));
  happens(RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_TRUE(rank().engine().disconnect(offered[0].handle, {}, now_).has_value());
  settle();
  happens(RDMA_CM_EVENT_DISCONNECTED);
  happens(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_EQ(kernel_.names(), (Names{"create_event_channel", "create_id", "bind_addr", "listen",
                                    "accept", "disconnect", "disconnect", "destroy_id"}));
}

TEST_F(KernelSequence, APortThatIsTakenIsTheKernelsToChoose) {
  kernel_.taken_ports.insert(KernelCarrier::preferred_port(1));
  start(kIb);
  listen();
  EXPECT_EQ(rank().carrier().service_id(), ServiceId(0x00000000013F0000 + 50000));
  EXPECT_EQ(kernel_.ids(), 1U);
  EXPECT_EQ(kernel_.names(), (Names{"create_event_channel", "create_id", "bind_addr", "destroy_id",
                                    "create_id", "bind_addr", "listen"}));
}

TEST_F(KernelSequence, ListeningMayFail) {
  start(kIb);
  for (const char* call : {"create_id", "bind_addr", "listen"}) {
    kernel_.failing = call;
    kernel_.error = EPERM;
    const auto service = rank().carrier().listen(1);
    ASSERT_FALSE(service.has_value());
    EXPECT_TRUE(service.error().is(Errc::NoPermission));
    EXPECT_NE(service.error().what().find(std::string("rdma_") + call), std::string_view::npos);
    EXPECT_FALSE(rank().carrier().service_id().has_value());
    EXPECT_EQ(kernel_.ids(), 0U);
  }
}

TEST_F(KernelSequence, PortsOfRanksAreBelowThoseThatTheKernelGives) {
  EXPECT_EQ(KernelCarrier::preferred_port(0), 0x2000);
  EXPECT_EQ(KernelCarrier::preferred_port(0x4FFF), 0x6FFF);
  EXPECT_EQ(KernelCarrier::preferred_port(0x5000), 0x2000);
}

TEST_F(KernelSequence, EachStepHasADeadline) {
  struct Step {
    std::vector<rdma_cm_event_type> before;
    Duration limit;
    const char* awaited;
  };
  start(kIb);
  for (const Step& step : {Step{{}, seconds(10), "the address"},
                           Step{{RDMA_CM_EVENT_ADDR_RESOLVED}, seconds(10), "the route"},
                           Step{{RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED},
                                seconds(120),
                                "the REP"}}) {
    rank().events.clear();
    connect(kIb, seconds(1000));
    for (const rdma_cm_event_type type : step.before) {
      happens(type);
    }
    EXPECT_LE(rank().carrier().poll_timeout(), now_ + step.limit);
    now_ += step.limit - milliseconds(1);
    settle();
    EXPECT_TRUE(rank().all<Rejected>().empty());
    now_ += milliseconds(1);
    settle();
    ASSERT_EQ(rank().all<Rejected>().size(), 1U) << step.awaited;
    EXPECT_EQ(rank().all<Rejected>()[0].reason, 4);
    EXPECT_EQ(kernel_.ids(), 0U);
    const auto failure = rank().carrier().poll_failure();
    ASSERT_TRUE(failure.has_value());
    EXPECT_NE(failure->error.what().find(step.awaited), std::string_view::npos)
        << failure->error.what();
  }
}

TEST_F(KernelSequence, ReleasesAndOffersHaveDeadlinesToo) {
  start(kIb);
  // Our DREQ is never answered.
  const Handle handle = connect_to_reply(kIb);
  ASSERT_TRUE(rank().engine().disconnect(handle, {}, now_).has_value());
  settle();
  now_ += seconds(10);
  settle();
  EXPECT_EQ(kernel_.ids(), 0U);
  EXPECT_EQ(rank().all<Disconnected>().at(0).cause, DisconnectCause::Timeout);
  now_ += seconds(1);
  settle();
  // The kernel's TIMEWAIT never ends.
  connect_to_reply(kIb);
  happens(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(kernel_.ids(), 1U);
  now_ += seconds(60);
  settle();
  EXPECT_EQ(kernel_.ids(), 0U);
  // The kernel says itself that nobody answered.
  const Handle third = connect_to_reply(kIb);
  ASSERT_TRUE(rank().engine().disconnect(third, {}, now_).has_value());
  settle();
  happens(RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
  EXPECT_EQ(rank().engine().state(third), State::DreqSent) << "the engine tells the truth later";
  happens(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_EQ(kernel_.ids(), 0U);
  // An offer that our consumer forgets.
  rdma_cm_id* const listener = listen();
  rank().on_event = [](const Event& /*event*/) { return true; };
  request(listener, kIb, 92);
  now_ += seconds(60);
  settle();
  EXPECT_EQ(kernel_.ids(), 1U) << "the listener";
}

TEST_F(KernelSequence, AnMraMakesAnOfferLonger) {
  start(kIb);
  rdma_cm_id* const listener = listen();
  rank().on_event = [&](const Event& event) {
    if (const auto* req = std::get_if<ReqReceived>(&event)) {
      // 4.096 us * 2^25: 137 seconds.
      EXPECT_TRUE(rank().engine().delay(req->handle, IbTimeout(25), {}, now_).has_value());
    }
    return true;
  };
  request(listener, kIb, 92);
  now_ += seconds(130);
  settle();
  EXPECT_EQ(kernel_.ids(), 2U);
  now_ += seconds(10);
  settle();
  EXPECT_EQ(kernel_.ids(), 1U);
}

TEST_F(KernelSequence, EachEventOfFailureIsARejWithItsText) {
  struct Case {
    rdma_cm_event_type type;
    int status;
    std::uint16_t reason;
    const char* text;
  };
  start(kIb);
  for (const Case& c : {Case{RDMA_CM_EVENT_ADDR_ERROR, -ENODEV, 12, "found no local port"},
                        Case{RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, 4, "found no local port"},
                        Case{RDMA_CM_EVENT_ROUTE_ERROR, -EINVAL, 12, "does not take the path"},
                        Case{RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, 3, "could not make"},
                        Case{RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, 4, "did not answer"},
                        Case{RDMA_CM_EVENT_DEVICE_REMOVAL, 0, 3, "device was removed"}}) {
    rank().events.clear();
    connect(kIb);
    happens(RDMA_CM_EVENT_ADDR_RESOLVED);
    happens(c.type, c.status);
    ASSERT_EQ(rank().all<Rejected>().size(), 1U) << c.text;
    EXPECT_EQ(rank().all<Rejected>()[0].reason, c.reason) << c.text;
    EXPECT_EQ(kernel_.ids(), 0U);
    const auto failure = rank().carrier().poll_failure();
    ASSERT_TRUE(failure.has_value());
    EXPECT_NE(failure->error.what().find(c.text), std::string_view::npos) << failure->error.what();
    EXPECT_EQ(failure->error.error_number(), -c.status);
  }
  EXPECT_EQ(rank().carrier().counters().failed, 6U);
}

TEST_F(KernelSequence, EventsOutOfTurnChangeNothing) {
  start(kIb);
  connect(kIb);
  happens(RDMA_CM_EVENT_ROUTE_RESOLVED);
  happens(RDMA_CM_EVENT_ESTABLISHED);
  happens(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, reply_values(), Bytes(196));
  happens(RDMA_CM_EVENT_ADDR_CHANGE);
  EXPECT_EQ(kernel_.names(), (Names{"create_event_channel", "create_id", "resolve_addr"}));
  EXPECT_TRUE(rank().events.empty());
  happens(RDMA_CM_EVENT_ADDR_RESOLVED);
  happens(RDMA_CM_EVENT_ADDR_RESOLVED);
  happens(RDMA_CM_EVENT_ROUTE_RESOLVED);
  // A queue pair number of more than 24 bits.
  rdma_conn_param values = reply_values();
  values.qp_num = 0x1000000;
  happens(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, values, Bytes(196));
  ASSERT_EQ(rank().all<Rejected>().size(), 1U);
  EXPECT_EQ(rank().all<Rejected>()[0].reason, 3);
}

TEST_F(KernelSequence, ReasonsThatNoRejHas) {
  start(kIb);
  for (const int status : {0, -EINVAL, 0x10000}) {
    rank().events.clear();
    connect(kIb);
    happens(RDMA_CM_EVENT_REJECTED, status, {}, Bytes(255, 1));
    ASSERT_EQ(rank().all<Rejected>().size(), 1U);
    EXPECT_EQ(rank().all<Rejected>()[0].reason, 3);
  }
}

TEST_F(KernelSequence, ARequestWithoutAPathOnInfinibandIsRefused) {
  start(kIb);
  rdma_cm_id* const listener = listen();
  auto* const id = kernel_.make_id(listener->channel);
  rdma_conn_param values{};
  values.qp_num = 0x100;
  kernel_.push(RDMA_CM_EVENT_CONNECT_REQUEST, id, 0, values, Bytes(92), listener);
  settle();
  EXPECT_TRUE(rank().events.empty());
  EXPECT_EQ(kernel_.ids(), 1U);
  EXPECT_TRUE(rank().carrier().poll_failure().has_value());
}

TEST_F(KernelSequence, OnRoceTheAddressesAreEnoughAndThePortsMtuStandsIn) {
  start(kRoce);
  rdma_cm_id* const listener = listen();
  auto* const id = kernel_.make_id(listener->channel);
  const Gid from = KernelRank::gid_of(kRoce, 2);
  std::copy(from.bytes().begin(), from.bytes().end(), id->route.addr.addr.ibaddr.dgid.raw);
  rdma_conn_param values{};
  values.qp_num = 0x100;
  kernel_.push(RDMA_CM_EVENT_CONNECT_REQUEST, id, 0, values, Bytes(56), listener);
  settle();
  const auto offered = rank().all<ReqReceived>();
  ASSERT_EQ(offered.size(), 1U);
  EXPECT_EQ(offered[0].req.path_mtu, KernelRank::options(kRoce, 1).mtu);
  EXPECT_EQ(offered[0].req.local_ca_guid, from.interface_id());
}

TEST_F(KernelSequence, TheListenersDeviceIsRemoved) {
  start(kIb);
  rdma_cm_id* const listener = listen();
  kernel_.push(RDMA_CM_EVENT_DEVICE_REMOVAL, listener);
  settle();
  EXPECT_FALSE(rank().carrier().service_id().has_value());
  EXPECT_EQ(kernel_.ids(), 0U);
  EXPECT_TRUE(rank().carrier().listen(1).has_value());
}

TEST_F(KernelSequence, DataBeforeTheRtu) {
  start(kIb);
  rdma_cm_id* const listener = listen();
  request(listener, kIb, 92);
  const CommId theirs = rank().all<ReqReceived>().at(0).req.local_comm_id;
  EXPECT_TRUE(rank().carrier().notify_established(theirs).has_value());
  EXPECT_EQ(kernel_.last("notify").number, IBV_EVENT_COMM_EST);
  happens(RDMA_CM_EVENT_ESTABLISHED);
  kernel_.calls.clear();
  EXPECT_TRUE(rank().carrier().notify_established(theirs).has_value());
  EXPECT_TRUE(rank().carrier().notify_established(CommId(0x12345)).has_value());
  EXPECT_TRUE(kernel_.names().empty());
}

TEST_F(KernelSequence, WhatTheKernelCannotCarryIsRefusedWithAReason) {
  start(kIb);
  using Change = void (*)(ConnectParams&);
  const Change changes[] = {
      [](ConnectParams& p) { p.transport_service = mad::TransportService::Uc; },
      [](ConnectParams& p) { p.alternate_path = p.path; },
      [](ConnectParams& p) { p.path.dgid = Gid(); },
      [](ConnectParams& p) { p.path.sgid = Gid(); },
      [](ConnectParams& p) { p.service_id = ServiceId(); },
  };
  for (const Change change : changes) {
    rank().events.clear();
    ConnectParams params = rank().connect_params(KernelRank::gid_of(kIb, 2), 2,
                                                 ServiceId(0x013F2003), 0x100, now_ + seconds(30));
    change(params);
    rank().connect(params, now_);
    settle();
    ASSERT_EQ(rank().all<Rejected>().size(), 1U);
    EXPECT_EQ(rank().all<Rejected>()[0].reason, 5);
  }
  EXPECT_EQ(rank().send_errors.size(), 5U);
  EXPECT_EQ(kernel_.names(), Names{"create_event_channel"}) << "before any call";
}

TEST_F(KernelSequence, ARoceServiceIdIsAPort) {
  start(kRoce);
  rank().connect(rank().connect_params(KernelRank::gid_of(kRoce, 2), 0, ServiceId(0x013F2003),
                                       0x100, now_ + seconds(30)),
                 now_);
  settle();
  ASSERT_EQ(rank().send_errors.size(), 1U);
  EXPECT_NE(rank().send_errors[0].what().find("0x00000000013f2003"), std::string_view::npos);
}

TEST(KernelCarrierOpen, WhereThereIsNone) {
  test::FakeRdmaCm kernel;
  KernelCarrier::Options options = KernelRank::options(Medium::Infiniband, 1);
  options.device = "/nonexistent/rdma_cm";
  auto opened = KernelCarrier::open(options, &test::FakeRdmaCm::ops());
  ASSERT_FALSE(opened.has_value());
  EXPECT_TRUE(opened.error().is(Errc::Unsupported));
  EXPECT_TRUE(kernel.calls.empty());
  options.device = "/dev/null";
  kernel.failing = "create_event_channel";
  kernel.error = EACCES;
  opened = KernelCarrier::open(options, &test::FakeRdmaCm::ops());
  ASSERT_FALSE(opened.has_value());
  EXPECT_TRUE(opened.error().is(Errc::NoPermission));
}

TEST(DerivedPsn, DependsOnQpnAndDataButNotOnPadding) {
  const std::array<std::uint8_t, 3> data{1, 2, 3};
  const Psn psn = derived_psn(Qpn(0x123456), data);
  EXPECT_EQ(psn, derived_psn(Qpn(0x123456), mad::private_data<92>(data)));
  EXPECT_EQ(psn, derived_psn(Qpn(0x123456), mad::private_data<196>(data)));
  EXPECT_NE(psn, derived_psn(Qpn(0x123457), data));
  EXPECT_NE(psn, derived_psn(Qpn(0x123456), std::array<std::uint8_t, 3>{1, 2, 4}));
  EXPECT_NE(derived_psn(Qpn(1), {}), derived_psn(Qpn(2), {}));
  // Worked out outside of this code, from FNV-1a's description: both ends of a mixed installation
  // have to agree for ever.
  EXPECT_EQ(derived_psn(Qpn(0), {}), Psn(0x1DEE96));
  EXPECT_EQ(psn, Psn(0x1B0DD7));
}

}  // namespace
}  // namespace wireup::cm
