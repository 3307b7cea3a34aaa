// SPDX-License-Identifier: BSD-3-Clause
// softhca's libibumad against an agent in this process, on a static fabric:
//   H1 (LID 1)   H2 (LID 2)   H3 (LID 3)   on one switch; this process is on H1.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "softhca/agent/server.hpp"
#include "softhca/fabric/static_fabric.hpp"
#include "softhca/fake_ibsim.hpp"
#include "softhca/temp_dir.hpp"
#include "softhca/umad/agent_client.hpp"

namespace {

using softhca::Counter;
using softhca_test::FakeIbsim;

constexpr int kTestTimeoutMs = 10000;
constexpr std::array<long, 2> kNoMethods = {0, 0};
constexpr std::array<long, 2> kGetAndSet = {(1 << 1) | (1 << 2), 0};

/// The fabric and its agent, for all tests: umad reads its environment once in a process.
class Agent : public ::testing::Environment {
 public:
  void SetUp() override {
    fabric_ = softhca::make_star_fabric(dir_.path(), 3);
    ASSERT_NE(fabric_, nullptr);
    setenv("SOFTHCA_DIR", dir_.path(), 1);
    setenv("SOFTHCA_HOST", "H1", 1);
    view_ = softhca::FabricView::attach(dir_.path());
    counters_ = softhca::Counters::attach(dir_.path());
    ASSERT_NE(view_, nullptr);
    ASSERT_NE(counters_, nullptr);
    std::map<std::string, FakeIbsim::Node> nodes;
    for (softhca::PortIndex i = 0; i < 3; ++i) {
      const softhca::PortAttr port = view_->port(i);
      nodes["H" + std::to_string(i + 1) + " HCA-1"] = {port.node_guid, port.lid};
    }
    const std::string base = "softhca-umad-test-" + std::to_string(getpid());
    ibsim_ = std::make_unique<FakeIbsim>(base, nodes);
    start(base);
  }

  void TearDown() override {
    stop();
    ibsim_.reset();
  }

  void stop() {
    if (thread_.joinable()) {
      close(stop_[1]);
      thread_.join();
      close(stop_[0]);
      server_.reset();
    }
  }

  void start(const std::string& base) {
    base_ = base;
    softhca::ServerOptions options;
    options.dir = dir_.path();
    options.ibsim_base = base;
    options.slots = 2;
    server_ = softhca::Server::create(options, *view_, [this] { ++kicks; });
    ASSERT_NE(server_, nullptr);
    ASSERT_EQ(pipe(stop_), 0);
    thread_ = std::thread([this] { server_->run(stop_[0]); });
  }

  void restart() {
    stop();
    start(base_);
  }

  [[nodiscard]] const char* dir() const { return dir_.path(); }
  softhca::StaticFabric& fabric() { return *fabric_; }
  softhca::Counters& counters() { return *counters_; }
  FakeIbsim& ibsim() { return *ibsim_; }
  std::atomic<int> kicks{0};

 private:
  softhca_test::TempDir dir_;
  std::unique_ptr<softhca::StaticFabric> fabric_;
  std::unique_ptr<softhca::FabricView> view_;
  std::unique_ptr<softhca::Counters> counters_;
  std::unique_ptr<FakeIbsim> ibsim_;
  std::unique_ptr<softhca::Server> server_;
  std::string base_;
  int stop_[2] = {-1, -1};
  std::thread thread_;
};

Agent* const kAgent = static_cast<Agent*>(::testing::AddGlobalTestEnvironment(new Agent));

/// A umad buffer with a MAD of 256 bytes.
class Buffer {
 public:
  Buffer() : umad_(static_cast<ib_user_mad*>(umad_alloc(1, umad_size() + 256))) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { umad_free(umad_); }
  std::uint8_t& operator[](std::size_t at) {
    return static_cast<std::uint8_t*>(umad_get_mad(umad_))[at];
  }
  void header(std::uint8_t mgmt_class, std::uint8_t version, std::uint8_t method,
              std::uint16_t attribute) {
    (*this)[0] = 1;
    (*this)[1] = mgmt_class;
    (*this)[2] = version;
    (*this)[3] = method;
    for (std::uint8_t i = 0; i < 8; ++i) {
      (*this)[8U + i] = static_cast<std::uint8_t>(0xA0 + i);
    }
    (*this)[16] = static_cast<std::uint8_t>(attribute >> 8);
    (*this)[17] = static_cast<std::uint8_t>(attribute & 0xFF);
  }
  /// The lower half is the program's; the upper half of a request is the agent's, as in the kernel.
  [[nodiscard]] bool tid_is_ours() {
    for (std::uint8_t i = 4; i < 8; ++i) {
      if ((*this)[8U + i] != 0xA0 + i) {
        return false;
      }
    }
    return (*this)[8] != 0xA0;
  }
  void address(int lid) { umad_set_addr(umad_, lid, 1, 0, static_cast<int>(0x80010000)); }
  ib_user_mad* get() { return umad_; }

 private:
  ib_user_mad* umad_;
};

class Umad : public ::testing::Test {
 protected:
  void SetUp() override {
    kAgent->counters().reset();
    fd_ = umad_open_port("softhca0", 1);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override { umad_close_port(fd_); }

  static int add(int fd, int mgmt_class, int version, std::array<long, 2> methods) {
    return umad_register(fd, mgmt_class, version, 0, methods.data());
  }

  static std::uint64_t counted(Counter counter) { return kAgent->counters().value(0, counter); }

  int fd_ = -1;
};

TEST_F(Umad, TellsTheHostsDevices) {
  char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
  ASSERT_EQ(umad_get_cas_names(names, UMAD_MAX_DEVICES), 1);
  EXPECT_STREQ(names[0], "softhca0");
  EXPECT_EQ(umad_get_cas_names(names, 0), 0);
  umad_ca_t ca;
  ASSERT_EQ(umad_get_ca("softhca0", &ca), 0);
  EXPECT_EQ(ca.numports, 1);
  EXPECT_EQ(ca.node_type, 1U);
  EXPECT_EQ(ca.ports[0], nullptr);
  ASSERT_NE(ca.ports[1], nullptr);
  EXPECT_EQ(ca.ports[1]->base_lid, 1U);
  EXPECT_EQ(ca.ports[1]->rate, 100U);
  EXPECT_STREQ(ca.ports[1]->link_layer, "InfiniBand");
  umad_release_ca(&ca);
  EXPECT_EQ(ca.ports[1], nullptr);
  EXPECT_LT(umad_get_ca("softhca1", &ca), 0);
  EXPECT_LT(umad_open_port("softhca0", 2), 0);
  __be64 guids[2];
  ASSERT_EQ(umad_get_ca_portguids("softhca0", guids, 2), 2);
  EXPECT_EQ(guids[0], 0U);
  EXPECT_EQ(be64toh(guids[1]), kAgent->fabric().model().ports[0].port_guid);
  EXPECT_LT(umad_get_ca_portguids("softhca0", guids, 1), 0);
  umad_device_node* list = umad_get_ca_device_list();
  ASSERT_NE(list, nullptr);
  EXPECT_STREQ(list->ca_name, "softhca0");
  EXPECT_EQ(list->next, nullptr);
  umad_free_ca_device_list(list);
}

TEST_F(Umad, PortInformationIsFresh) {
  umad_port_t port;
  ASSERT_EQ(umad_get_port(nullptr, 0, &port), 0);
  EXPECT_EQ(port.base_lid, 1U);
  EXPECT_EQ(port.state, 4U);
  ASSERT_EQ(port.pkeys_size, 128U);
  EXPECT_EQ(port.pkeys[0], 0xFFFF);
  umad_release_port(&port);
  softhca::PortRecord& record = kAgent->fabric().model().ports[0];
  const softhca::PortRecord before = record;
  record.lid = 77;
  record.state = softhca::kPortInit;
  ASSERT_TRUE(kAgent->fabric().publish());
  ASSERT_EQ(umad_get_port("softhca0", 1, &port), 0);
  EXPECT_EQ(port.base_lid, 77U);
  EXPECT_EQ(port.state, 2U);
  umad_release_port(&port);
  record = before;
  ASSERT_TRUE(kAgent->fabric().publish());
}

TEST_F(Umad, AMethodBelongsToOneAgentOfAPort) {
  const int first = add(fd_, 0x0A, 1, kGetAndSet);
  ASSERT_GE(first, 0);
  const int other = umad_open_port("softhca0", 1);
  ASSERT_GE(other, 0);
  EXPECT_EQ(add(other, 0x0A, 1, {1 << 2, 0}), -EPERM) << "Set is in use";
  EXPECT_GE(add(other, 0x0A, 1, {1 << 6, 0}), 0) << "Report is not";
  EXPECT_GE(add(other, 0x0A, 2, kGetAndSet), 0) << "another class version";
  EXPECT_GE(add(other, 0x0B, 1, kGetAndSet), 0) << "another class";
  EXPECT_GE(add(other, 0x0A, 1, kNoMethods), 0) << "answers only";
  EXPECT_EQ(umad_unregister(fd_, first), 0);
  EXPECT_LT(umad_unregister(fd_, first), 0) << "once is enough";
  EXPECT_GE(add(other, 0x0A, 1, {1 << 2, 0}), 0) << "free again";
  umad_close_port(other);
  // Closing is noticed by the agent a moment after it returns here.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  int again = -1;
  while (again < 0 && std::chrono::steady_clock::now() < deadline) {
    again = add(fd_, 0x0B, 1, kGetAndSet);
  }
  EXPECT_GE(again, 0) << "closing unregisters";
}

TEST_F(Umad, VendorClassesAreToldApartByOui) {
  std::array<std::uint8_t, 3> ours = {0x00, 0x14, 0x05};
  std::array<std::uint8_t, 3> theirs = {0x00, 0x14, 0x06};
  std::array<long, 2> mask = kGetAndSet;
  EXPECT_GE(umad_register_oui(fd_, 0x32, 0, ours.data(), mask.data()), 0);
  EXPECT_LT(umad_register_oui(fd_, 0x32, 0, ours.data(), mask.data()), 0);
  EXPECT_GE(umad_register_oui(fd_, 0x32, 0, theirs.data(), mask.data()), 0);
  EXPECT_LT(umad_register_oui(fd_, 0x0A, 0, ours.data(), mask.data()), 0) << "no such range";
  EXPECT_LT(add(fd_, 0x32, 1, kGetAndSet), 0) << "without an OUI it is OpenIB's, which is taken";
  EXPECT_GE(add(fd_, 0x32, 1, kNoMethods), 0);
  umad_reg_attr attr = {};
  attr.mgmt_class = 0x0C;
  attr.mgmt_class_version = 1;
  attr.method_mask[0] = 1 << 1;
  std::uint32_t agent = 99;
  EXPECT_EQ(umad_register2(fd_, &attr, &agent), 0);
  EXPECT_LT(agent, softhca::kMaxAgentsPerPort);
  EXPECT_EQ(umad_register2(fd_, &attr, &agent), EINVAL) << "in use";
  attr.flags = 0x80;
  EXPECT_EQ(umad_register2(fd_, &attr, &agent), EINVAL) << "unknown flag";
}

TEST_F(Umad, APortHasSoManyAgents) {
  int agents = 0;
  while (add(fd_, 0x0A, 1, kNoMethods) >= 0) {
    ASSERT_LE(++agents, 64);
  }
  EXPECT_EQ(agents, 32);
}

TEST_F(Umad, RefusesWhatCannotBeSent) {
  const int agent = add(fd_, 3, 2, kNoMethods);
  Buffer buffer;
  buffer.header(3, 2, 1, 0x35);
  buffer.address(3);
  EXPECT_LT(umad_send(fd_, agent + 1, buffer.get(), 256, 100, 0), 0) << "no such agent";
  EXPECT_LT(umad_send(fd_, -1, buffer.get(), 256, 100, 0), 0);
  EXPECT_LT(umad_send(fd_, agent, buffer.get(), 23, 100, 0), 0) << "no whole header";
  EXPECT_LT(umad_send(fd_, agent, buffer.get(), 257, 100, 0), 0) << "more than a MAD";
  const int rmpp = umad_register(fd_, 3, 2, 1, std::array<long, 2>(kNoMethods).data());
  ASSERT_GE(rmpp, 0);
  EXPECT_LT(umad_send(fd_, rmpp, buffer.get(), 257, 100, 0), 0) << "not marked as a transfer";
  EXPECT_LT(umad_send(fd_ + 1000, agent, buffer.get(), 256, 100, 0), 0) << "no such port";
}

TEST_F(Umad, AnAnswerComesBackWithItsTransactionId) {
  const int agent = add(fd_, 4, 1, kNoMethods);
  Buffer buffer;
  buffer.header(4, 1, 2, 0x12);
  buffer.address(3);
  ASSERT_EQ(umad_send(fd_, agent, buffer.get(), 256, kTestTimeoutMs, 0), 0);
  int length = 256;
  ASSERT_EQ(umad_recv(fd_, buffer.get(), &length, kTestTimeoutMs), agent);
  EXPECT_EQ(umad_status(buffer.get()), 0);
  EXPECT_EQ(length, 256);
  EXPECT_TRUE(buffer.tid_is_ours());
  EXPECT_EQ(buffer[3], 0x82);
  EXPECT_EQ(buffer[61], 1) << "asked from the port of this host";
  EXPECT_EQ(ntohs(umad_get_mad_addr(buffer.get())->lid), 3);
  EXPECT_EQ(counted(Counter::GmpOther), 1U);
}

TEST_F(Umad, ALostRequestIsRepeated) {
  const int agent = add(fd_, 4, 1, kNoMethods);
  Buffer buffer;
  buffer.header(4, 1, 1, 0x12);
  buffer.address(3);
  kAgent->ibsim().lose(2);
  ASSERT_EQ(umad_send(fd_, agent, buffer.get(), 256, 50, 5), 0);
  int length = 256;
  ASSERT_EQ(umad_recv(fd_, buffer.get(), &length, kTestTimeoutMs), agent);
  EXPECT_EQ(umad_status(buffer.get()), 0);
  EXPECT_TRUE(buffer.tid_is_ours());
  EXPECT_GE(counted(Counter::GmpOther), 3U) << "every try is a query";
}

TEST_F(Umad, AnUnansweredRequestComesBackTimedOut) {
  const int agent = add(fd_, 4, 1, kNoMethods);
  Buffer buffer;
  buffer.header(4, 1, 1, 0x12);
  buffer.address(3);
  kAgent->ibsim().lose(3);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(umad_send(fd_, agent, buffer.get(), 256, 60, 2), 0);
  pollfd wait = {umad_get_fd(fd_), POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, kTestTimeoutMs), 1) << "the descriptor becomes readable by itself";
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(180));
  int length = 256;
  ASSERT_EQ(umad_recv(fd_, buffer.get(), &length, 0), agent);
  EXPECT_EQ(umad_status(buffer.get()), ETIMEDOUT);
  EXPECT_EQ(length, 24) << "the MAD header alone, as from the kernel";
  EXPECT_TRUE(buffer.tid_is_ours());
  EXPECT_EQ(counted(Counter::GmpOther), 3U);
  EXPECT_EQ(counted(Counter::UmadTimeouts), 1U);
  EXPECT_EQ(umad_recv(fd_, buffer.get(), &length, 1), -ETIMEDOUT) << "and nothing else comes";
  kAgent->ibsim().lose(0);
}

TEST_F(Umad, ABufferTooSmallLosesNothing) {
  const int agent = add(fd_, 4, 1, kNoMethods);
  Buffer buffer;
  buffer.header(4, 1, 1, 0x12);
  buffer.address(3);
  ASSERT_EQ(umad_send(fd_, agent, buffer.get(), 256, kTestTimeoutMs, 0), 0);
  int length = 100;
  EXPECT_EQ(umad_recv(fd_, buffer.get(), &length, kTestTimeoutMs), -EINVAL);
  EXPECT_EQ(length, 256) << "this much is wanted";
  ASSERT_EQ(umad_recv(fd_, buffer.get(), &length, kTestTimeoutMs), agent);
  EXPECT_TRUE(buffer.tid_is_ours());
}

TEST_F(Umad, DoesNotBlockWhenToldNotTo) {
  ASSERT_EQ(fcntl(umad_get_fd(fd_), F_SETFL, O_NONBLOCK), 0);
  Buffer buffer;
  int length = 256;
  EXPECT_EQ(umad_recv(fd_, buffer.get(), &length, 0), -EWOULDBLOCK);
  EXPECT_EQ(umad_poll(fd_, 1), -ETIMEDOUT);
  EXPECT_LT(umad_poll(fd_ + 1000, 1), 0);
}

TEST_F(Umad, RequestsOfAClassReachWhoRegisteredForThem) {
  const int client = add(fd_, 0x0A, 1, kNoMethods);
  const int server_fd = umad_open_port("softhca0", 1);
  ASSERT_GE(server_fd, 0);
  const int server = add(server_fd, 0x0A, 1, kGetAndSet);
  ASSERT_GE(server, 0);
  Buffer buffer;
  buffer.header(0x0A, 1, 1, 0x10);
  buffer.address(1);
  ASSERT_EQ(umad_send(fd_, client, buffer.get(), 256, kTestTimeoutMs, 0), 0);
  Buffer request;
  int length = 256;
  ASSERT_EQ(umad_recv(server_fd, request.get(), &length, kTestTimeoutMs), server);
  EXPECT_EQ(ntohs(umad_get_mad_addr(request.get())->lid), 1);
  EXPECT_EQ(ntohl(umad_get_mad_addr(request.get())->qpn), 1U);
  request[3] = 0x81;
  request[255] = 0x5A;
  ASSERT_EQ(umad_send(server_fd, server, request.get(), 256, 0, 0), 0);
  ASSERT_EQ(umad_recv(fd_, buffer.get(), &length, kTestTimeoutMs), client);
  EXPECT_TRUE(buffer.tid_is_ours());
  EXPECT_EQ(buffer[255], 0x5A);
  umad_close_port(server_fd);
}

/// Another host's process: an opened port with one agent, spoken to without libibumad.
class RawPort {
 public:
  RawPort(std::uint32_t port, std::uint8_t mgmt_class, std::uint8_t version,
          std::uint64_t methods) {
    control_ = softhca::connect_agent(kAgent->dir());
    int pair[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    data_ = pair[0];
    softhca::AgentRequest request;
    request.op = static_cast<std::uint32_t>(softhca::AgentOp::Open);
    request.port_index = port;
    EXPECT_EQ(softhca::call_agent(control_, request, pair[1], nullptr), 0);
    close(pair[1]);
    request = {};
    request.op = static_cast<std::uint32_t>(softhca::AgentOp::Register);
    request.mgmt_class = mgmt_class;
    request.class_version = version;
    request.method_mask[0] = methods;
    EXPECT_EQ(softhca::call_agent(control_, request, -1, nullptr), 0);
  }
  RawPort(const RawPort&) = delete;
  RawPort& operator=(const RawPort&) = delete;
  ~RawPort() {
    close(control_);
    close(data_);
  }
  void send(Buffer& buffer) const {
    const std::size_t size = umad_size() + 256;
    EXPECT_EQ(::send(data_, buffer.get(), size, 0), static_cast<ssize_t>(size));
  }
  [[nodiscard]] bool receive(Buffer& buffer, int timeout_ms) const {
    pollfd wait = {data_, POLLIN, 0};
    const std::size_t size = umad_size() + 256;
    return poll(&wait, 1, timeout_ms) == 1 &&
           recv(data_, buffer.get(), size, 0) == static_cast<ssize_t>(size);
  }

 private:
  int control_ = -1;
  int data_ = -1;
};

TEST_F(Umad, RequestsOfAClassTravelBetweenHosts) {
  const RawPort there(1, 0x0A, 1, 1 << 1);
  const RawPort elsewhere(2, 0x0A, 1, 1 << 1);
  const int agent = add(fd_, 0x0A, 1, kNoMethods);
  Buffer buffer;
  buffer.header(0x0A, 1, 1, 0x10);
  buffer.address(2);
  ASSERT_EQ(umad_send(fd_, agent, buffer.get(), 256, kTestTimeoutMs, 0), 0);
  Buffer request;
  ASSERT_TRUE(there.receive(request, kTestTimeoutMs));
  EXPECT_EQ(ntohs(umad_get_mad_addr(request.get())->lid), 1) << "from this host";
  request[3] = 0x81;
  there.send(request);
  int length = 256;
  ASSERT_EQ(umad_recv(fd_, buffer.get(), &length, kTestTimeoutMs), agent);
  EXPECT_EQ(umad_status(buffer.get()), 0);
  EXPECT_EQ(buffer[3], 0x81);
  EXPECT_EQ(ntohs(umad_get_mad_addr(buffer.get())->lid), 2);
  EXPECT_FALSE(elsewhere.receive(request, 0)) << "and nobody else has seen it";
}

TEST_F(Umad, RequestsEndWhereTheLinkIsDown) {
  const RawPort there(1, 0x0A, 1, 1 << 1);
  softhca::PortRecord& record = kAgent->fabric().model().ports[1];
  record.state = softhca::kPortInit;
  ASSERT_TRUE(kAgent->fabric().publish());
  const int agent = add(fd_, 0x0A, 1, kNoMethods);
  Buffer buffer;
  buffer.header(0x0A, 1, 1, 0x10);
  buffer.address(2);
  EXPECT_EQ(umad_send(fd_, agent, buffer.get(), 256, 30, 0), 0);
  int length = 256;
  EXPECT_EQ(umad_recv(fd_, buffer.get(), &length, kTestTimeoutMs), agent);
  EXPECT_EQ(umad_status(buffer.get()), ETIMEDOUT);
  EXPECT_FALSE(there.receive(buffer, 0));
  record.state = softhca::kPortActive;
  ASSERT_TRUE(kAgent->fabric().publish());
}

TEST_F(Umad, ConnectionManagementIsCountedAtTheSender) {
  const int agent = add(fd_, 7, 2, kNoMethods);
  Buffer buffer;
  buffer.header(7, 2, 3, 0x0010);
  buffer.address(2);
  ASSERT_EQ(umad_send(fd_, agent, buffer.get(), 256, 0, 0), 0);
  buffer.header(7, 2, 3, 0x0014);
  ASSERT_EQ(umad_send(fd_, agent, buffer.get(), 256, 0, 0), 0);
  // A request that is answered has passed the agent after both.
  const int other = add(fd_, 4, 1, kNoMethods);
  buffer.header(4, 1, 1, 0x12);
  ASSERT_EQ(umad_send(fd_, other, buffer.get(), 256, kTestTimeoutMs, 0), 0);
  int length = 256;
  ASSERT_EQ(umad_recv(fd_, buffer.get(), &length, kTestTimeoutMs), other);
  EXPECT_EQ(counted(Counter::CmReq), 1U);
  EXPECT_EQ(counted(Counter::CmRtu), 1U);
  EXPECT_EQ(counted(Counter::GmpOther), 1U) << "the last one alone";
}

TEST_F(Umad, AskersOnOtherHostsAreToldApart) {
  // More hosts than slots, all with the same transaction id.
  const std::array<RawPort, 3> askers = {RawPort(0, 4, 1, 0), RawPort(1, 4, 1, 0),
                                         RawPort(2, 4, 1, 0)};
  for (int round = 0; round < 20; ++round) {
    for (const RawPort& asker : askers) {
      Buffer buffer;
      buffer.header(4, 1, 1, 0x12);
      buffer.address(3);
      buffer.get()->timeout_ms = kTestTimeoutMs;
      asker.send(buffer);
    }
    for (std::size_t i = 0; i < askers.size(); ++i) {
      Buffer buffer;
      ASSERT_TRUE(askers[i].receive(buffer, kTestTimeoutMs));
      EXPECT_EQ(umad_status(buffer.get()), 0);
      EXPECT_TRUE(buffer.tid_is_ours());
      EXPECT_EQ(buffer[61], i + 1) << "answered at the port that asked";
    }
  }
}

TEST_F(Umad, HostileClientsAreDroppedAlone) {
  for (const std::size_t size : {0U, 1U, 39U, 40U, 41U, 4000U}) {
    const int control = softhca::connect_agent(kAgent->dir());
    ASSERT_GE(control, 0);
    const std::vector<std::uint8_t> junk(size, 0x5A);
    ASSERT_GE(send(control, junk.data(), junk.size(), MSG_NOSIGNAL), 0);
    pollfd wait = {control, POLLIN, 0};
    ASSERT_EQ(poll(&wait, 1, kTestTimeoutMs), 1);
    char byte = 0;
    EXPECT_LE(recv(control, &byte, 1, 0), 0) << size << " bytes: the agent closes it";
    close(control);
  }
  // Requests in the wrong order or about nothing.
  const int control = softhca::connect_agent(kAgent->dir());
  softhca::AgentRequest request;
  request.op = static_cast<std::uint32_t>(softhca::AgentOp::Register);
  request.mgmt_class = 3;
  EXPECT_EQ(softhca::call_agent(control, request, -1, nullptr), EINVAL) << "not opened";
  request.op = static_cast<std::uint32_t>(softhca::AgentOp::Unregister);
  request.agent_id = 0xFFFFFFFF;
  EXPECT_EQ(softhca::call_agent(control, request, -1, nullptr), EINVAL);
  request.op = static_cast<std::uint32_t>(softhca::AgentOp::Open);
  EXPECT_EQ(softhca::call_agent(control, request, -1, nullptr), EINVAL) << "no descriptor";
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  request.port_index = 0xFFFFFFFF;
  EXPECT_EQ(softhca::call_agent(control, request, pair[1], nullptr), ENODEV);
  request.port_index = 1;
  EXPECT_EQ(softhca::call_agent(control, request, STDERR_FILENO, nullptr), EINVAL);
  EXPECT_EQ(softhca::call_agent(control, request, pair[1], nullptr), 0);
  close(pair[1]);
  // MADs that are none.
  std::array<std::uint8_t, 600> junk{};
  junk.fill(0xFF);
  for (const std::size_t size : {1U, 63U, 64U, 87U, 88U, 320U, 321U, 600U}) {
    EXPECT_EQ(send(pair[0], junk.data(), size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }
  const int agent = add(fd_, 4, 1, kNoMethods);
  Buffer buffer;
  buffer.header(4, 1, 1, 0x12);
  buffer.address(3);
  ASSERT_EQ(umad_send(fd_, agent, buffer.get(), 256, kTestTimeoutMs, 0), 0);
  int length = 256;
  EXPECT_EQ(umad_recv(fd_, buffer.get(), &length, kTestTimeoutMs), agent)
      << "everybody else is served";
  close(pair[0]);
  close(control);
}

TEST_F(Umad, AnAgentThatEndsIsAnErrorAndNotAWait) {
  const int agent = add(fd_, 4, 1, kNoMethods);
  kAgent->restart();
  Buffer buffer;
  int length = 256;
  EXPECT_EQ(umad_recv(fd_, buffer.get(), &length, kTestTimeoutMs), -EIO);
  EXPECT_LT(umad_send(fd_, agent, buffer.get(), 256, 100, 0), 0);
  const int fresh = umad_open_port("softhca0", 1);
  EXPECT_GE(fresh, 0) << "a new port of the new agent works";
  umad_close_port(fresh);
}

}  // namespace
