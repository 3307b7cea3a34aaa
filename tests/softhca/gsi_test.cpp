// SPDX-License-Identifier: BSD-3-Clause
// QP 1 of three hosts on one switch (LIDs 1, 2, 3), in virtual time and without a thread.
#include "softhca/agent/gsi.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "softhca/agent/fault_text.hpp"
#include "softhca/fabric/static_fabric.hpp"
#include "softhca/mad/bytes.hpp"
#include "softhca/temp_dir.hpp"

namespace {

using softhca::Counter;
using softhca::Instant;
using softhca::PortIndex;
using softhca::UmadArrival;
using softhca::UmadHeader;
using std::chrono::milliseconds;

constexpr std::uint8_t kSa = 3;
constexpr std::uint8_t kCm = 7;
constexpr std::uint16_t kNodeRecord = 0x11;
constexpr std::size_t kSaHeader = 56;

struct Want {
  PortIndex port = 0;
  std::uint8_t mgmt_class = kSa;
  std::uint64_t methods = 0;
  bool rmpp = true;
  bool user_rmpp = false;
};

class Gsi : public ::testing::Test {
 protected:
  /// A process with one port open and one agent on it.
  struct Process {
    softhca::Session* session = nullptr;
    int fd = -1;
    std::uint32_t agent = 0;
    Process() = default;
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    ~Process() { close(fd); }
  };

  void SetUp() override {
    fabric_ = softhca::make_star_fabric(dir_.path(), 3);
    ASSERT_NE(fabric_, nullptr);
    view_ = softhca::FabricView::attach(dir_.path());
    counters_ = softhca::Counters::attach(dir_.path());
    gsi_ = std::make_unique<softhca::Gsi>(sessions_, *view_, *counters_, faults_,
                                          [this] { ++joins_; });
  }

  std::unique_ptr<Process> process(const Want& want) {
    auto made = std::make_unique<Process>();
    int control[2];
    int data[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, data), 0);
    close(control[1]);
    const std::uint64_t id = next_id_++;
    auto session = std::make_unique<softhca::Session>(id, control[0]);
    session->open(want.port, data[0]);
    made->fd = data[1];
    made->session = session.get();
    sessions_.emplace(id, std::move(session));
    softhca::AgentRequest request;
    request.mgmt_class = want.mgmt_class;
    request.class_version = want.mgmt_class == kSa || want.mgmt_class == kCm ? 2 : 1;
    request.rmpp_version = want.rmpp ? 1 : 0;
    request.user_rmpp = want.user_rmpp ? 1 : 0;
    request.method_mask[0] = want.methods;
    EXPECT_EQ(softhca::register_agent(sessions_, *made->session, request, made->agent), 0);
    return made;
  }

  static std::vector<std::uint8_t> mad(std::uint8_t method, std::uint32_t tid,
                                       std::size_t data = 200, bool transfer = false) {
    std::vector<std::uint8_t> bytes(kSaHeader + data);
    bytes[0] = 1;
    bytes[1] = kSa;
    bytes[2] = 2;
    bytes[3] = method;
    softhca::put32(bytes, 12, tid);
    softhca::put16(bytes, 16, kNodeRecord);
    bytes[26] = transfer ? 1 : 0;
    for (std::size_t i = kSaHeader; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(i * 3 + i / 253);
    }
    return bytes;
  }

  void send(const Process& from, std::uint16_t lid, std::vector<std::uint8_t> bytes,
            std::uint32_t timeout_ms = 0, std::uint32_t retries = 0) {
    UmadHeader header;
    header.agent_id = from.agent;
    header.qpn = htonl(1);
    header.lid = htons(lid);
    header.timeout_ms = timeout_ms;
    header.retries = retries;
    gsi_->handle_send(*from.session, header, std::move(bytes), now_);
    gsi_->handle_time(now_);
  }

  /// What has come, or nothing.
  static std::optional<UmadArrival> receive(const Process& at) {
    UmadArrival arrival;
    if (softhca::read_umad(at.fd, arrival) != softhca::UmadRead::Message) {
      return std::nullopt;
    }
    return arrival;
  }

  /// Lets the time pass that the agent asks for, `limit` at most.
  void pass(milliseconds limit) {
    const Instant end = now_ + limit;
    for (auto next = gsi_->deadline(); next && *next <= end; next = gsi_->deadline()) {
      now_ = std::max(now_, *next);
      gsi_->handle_time(now_);
    }
    now_ = end;
    gsi_->handle_time(now_);
  }

  void fault(const std::vector<std::string>& words) {
    const bool sa = words.front() == "sa";
    const auto rest = std::span(words).subspan(1);
    const auto rule =
        sa ? softhca::parse_sa_rule(rest, *view_) : softhca::parse_gsi_rule(rest, *view_);
    ASSERT_TRUE(std::holds_alternative<softhca::GsiRule>(rule))
        << std::get<softhca::FaultMistake>(rule).text;
    faults_.add(std::get<softhca::GsiRule>(rule));
  }

  /// A request from H1 that the server on H2 gets.
  UmadArrival ask(const Process& client, const Process& server, std::uint32_t tid,
                  std::uint32_t timeout_ms = 1000) {
    send(client, 2, mad(0x12, tid), timeout_ms);
    auto request = receive(server);
    EXPECT_TRUE(request);
    return request.value_or(UmadArrival{});
  }

  /// The server's answer to it, with so much data.
  void answer(const Process& server, const UmadArrival& request, std::size_t data) {
    auto bytes = mad(0x92, 0, data, true);
    std::copy_n(request.data.begin() + 8, 8, bytes.begin() + 8);
    send(server, ntohs(request.header.lid), std::move(bytes), 0, 5);
  }

  softhca_test::TempDir dir_;
  std::unique_ptr<softhca::StaticFabric> fabric_;
  std::unique_ptr<softhca::FabricView> view_;
  std::unique_ptr<softhca::Counters> counters_;
  softhca::Sessions sessions_;
  softhca::GsiFaults faults_;
  std::unique_ptr<softhca::Gsi> gsi_;
  Instant now_{std::chrono::hours(1)};
  std::uint64_t next_id_ = 1;
  int joins_ = 0;
};

constexpr std::uint64_t kGetTable = std::uint64_t{1} << 0x12;

TEST_F(Gsi, TablesOfAnyLengthComeWhole) {
  const auto client = process({0});
  const auto server = process({1, kSa, kGetTable});
  std::uint32_t tid = 1;
  for (const std::size_t data : {1U, 200U, 201U, 20000U, 16384U, 300000U}) {
    answer(*server, ask(*client, *server, tid), data);
    const auto table = receive(*client);
    ASSERT_TRUE(table) << data;
    EXPECT_EQ(table->data.size(), kSaHeader + data);
    const auto sent = mad(0x92, tid, data, true);
    EXPECT_TRUE(
        std::equal(table->data.begin() + kSaHeader, table->data.end(), sent.begin() + kSaHeader));
    EXPECT_EQ(ntohs(table->header.lid), 2);
    EXPECT_EQ(softhca::get32(table->data, 12), tid);
    ++tid;
  }
  EXPECT_EQ(counters_->value(0, Counter::SaOther), 6U) << "requests, not segments";
  EXPECT_EQ(counters_->value(1, Counter::SaOther), 0U);
}

TEST_F(Gsi, RequestsMayBeLongToo) {
  const auto client = process({0});
  const auto server = process({1, kSa, std::uint64_t{1} << 0x14});
  send(*client, 2, mad(0x14, 9, 5000, true), 1000, 3);
  const auto request = receive(*server);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->data.size(), kSaHeader + 5000);
  pass(milliseconds(999));
  EXPECT_FALSE(receive(*client));
  pass(milliseconds(1));
  pass(milliseconds(5000));
  const auto lost = receive(*client);
  ASSERT_TRUE(lost) << "time runs from the acknowledgement on";
  EXPECT_EQ(lost->header.status, std::uint32_t{ETIMEDOUT});
}

TEST_F(Gsi, LossesOfSegmentsAreRepaired) {
  const auto client = process({0});
  const auto server = process({1, kSa, kGetTable});
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    const UmadArrival request = ask(*client, *server, seed, 600000);
    fault({"gsi", "drop", "--class", "sa", "--chance", "10%", "--seed", std::to_string(seed)});
    fault({"gsi", "duplicate", "--chance", "5%", "--seed", std::to_string(seed)});
    fault({"gsi", "reorder", "--chance", "5%", "--seed", std::to_string(seed)});
    answer(*server, request, 30000);
    pass(milliseconds(100000));
    const auto table = receive(*client);
    ASSERT_TRUE(table) << "seed " << seed;
    EXPECT_EQ(table->data.size(), kSaHeader + 30000) << "seed " << seed;
    EXPECT_FALSE(receive(*client)) << "once, seed " << seed;
    EXPECT_GT(faults_.entries()[0].hit, 0U);
    faults_.clear();
  }
}

TEST_F(Gsi, ARequestIsRepeatedAndThenGivenBack) {
  const auto client = process({0});
  const auto server = process({1, kSa, kGetTable});
  send(*client, 2, mad(0x12, 5), 100, 2);
  int requests = 0;
  for (int i = 0; i < 299; ++i) {
    pass(milliseconds(1));
    while (receive(*server)) {
      ++requests;
    }
    EXPECT_FALSE(receive(*client)) << i;
  }
  pass(milliseconds(2));
  EXPECT_EQ(requests, 3);
  const auto back = receive(*client);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->header.status, std::uint32_t{ETIMEDOUT});
  EXPECT_EQ(back->data.size(), 24U);
}

TEST_F(Gsi, AnswersThatNobodyAskedForAreLost) {
  const auto client = process({0});
  const auto server = process({1, kSa, kGetTable});
  const auto impostor = process({2, kSa, 0});
  const UmadArrival request = ask(*client, *server, 5);
  answer(*impostor, request, 100);
  EXPECT_FALSE(receive(*client)) << "not from the port that was asked";
  answer(*server, request, 100);
  EXPECT_TRUE(receive(*client));
  auto again = mad(0x92, 5, 100);
  std::copy_n(request.data.begin() + 8, 8, again.begin() + 8);
  again.resize(256);
  send(*server, 1, again);
  EXPECT_FALSE(receive(*client)) << "once is enough";
}

TEST_F(Gsi, WhoDoesRmppItselfGetsSegments) {
  const auto client = process({0, kSa, 0, true, true});
  const auto server = process({1, kSa, kGetTable});
  answer(*server, ask(*client, *server, 5), 1000);
  const auto first = receive(*client);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->data.size(), 256U);
  EXPECT_EQ(softhca::get32(first->data, 28), 1U);
  EXPECT_FALSE(receive(*client)) << "until it acknowledges the first";
}

TEST_F(Gsi, OnlyMembersOfAPartitionHearEachOther) {
  const auto client = process({0});
  const auto server = process({1, kSa, kGetTable});
  struct Case {
    std::uint16_t ours;
    std::uint16_t theirs;
    bool heard;
  };
  for (const Case& c :
       {Case{0xFFFF, 0xFFFF, true}, Case{0x7FFF, 0xFFFF, true}, Case{0xFFFF, 0x7FFF, true},
        Case{0x7FFF, 0x7FFF, false}, Case{0x8001, 0xFFFF, false}, Case{0x8001, 0x0001, true}}) {
    fabric_->model().ports[0].pkeys[0] = c.ours;
    fabric_->model().ports[1].pkeys[0] = c.theirs;
    ASSERT_TRUE(fabric_->publish());
    send(*client, 2, mad(0x12, 5));
    EXPECT_EQ(receive(*server).has_value(), c.heard) << std::hex << c.ours << " " << c.theirs;
  }
}

TEST_F(Gsi, AGrantedJoinAsksForASweep) {
  const auto client = process({0});
  const auto server = process({1, kSa, 1 << 2});
  auto join = mad(0x02, 5);
  softhca::put16(join, 16, 0x38);
  send(*client, 2, join, 1000);
  auto request = receive(*server);
  ASSERT_TRUE(request);
  request->data[3] = 0x81;
  send(*server, 1, request->data);
  ASSERT_TRUE(receive(*client));
  EXPECT_EQ(joins_, 1);
}

TEST_F(Gsi, AProcessThatEndsLeavesNothing) {
  auto client = process({0});
  const auto server = process({1, kSa, kGetTable});
  const UmadArrival request = ask(*client, *server, 5);
  answer(*server, request, 100000);
  const std::uint64_t id = client->session->id();
  gsi_->forget_session(id);
  sessions_.erase(id);
  pass(milliseconds(60000));
  EXPECT_EQ(gsi_->deadline(), std::nullopt);
}

/// A CM message's header: every one is of method Send, answers too.
std::vector<std::uint8_t> cm_message(std::uint64_t tid, std::uint8_t attribute) {
  std::vector<std::uint8_t> bytes(256);
  bytes[0] = 1;
  bytes[1] = kCm;
  bytes[2] = 2;
  bytes[3] = 3;
  softhca::put32(bytes, 8, static_cast<std::uint32_t>(tid >> 32));
  softhca::put32(bytes, 12, static_cast<std::uint32_t>(tid));
  bytes[17] = attribute;
  return bytes;
}

constexpr std::uint64_t kSendMethod = std::uint64_t{1} << 3;

TEST_F(Gsi, MessagesOfTheCmGoToWhoHasTheClass) {
  const auto active = process({0, kCm, kSendMethod, false});
  const auto passive = process({1, kCm, kSendMethod, false});
  const auto bystander = process({1});
  send(*active, 2, cm_message(0x1111111122222222, 0x10));
  const auto request = receive(*passive);
  ASSERT_TRUE(request);
  EXPECT_FALSE(receive(*bystander));
  EXPECT_EQ(ntohs(request->header.lid), 1);
  EXPECT_EQ(ntohl(request->header.qpn), 1U);
  EXPECT_EQ(request->header.status, 0U);
  ASSERT_EQ(request->data.size(), 256U);
  // As the kernel, for it takes all messages without a response bit for requests.
  EXPECT_EQ(softhca::get32(request->data, 8), active->session->agents()[active->agent].tid_high);
  EXPECT_EQ(softhca::get32(request->data, 12), 0x22222222U);

  auto answer = cm_message(0, 0x13);
  std::copy_n(request->data.begin() + 8, 8, answer.begin() + 8);
  send(*passive, 1, answer);
  const auto reply = receive(*active);
  ASSERT_TRUE(reply);
  EXPECT_EQ(softhca::get32(reply->data, 8), passive->session->agents()[passive->agent].tid_high)
      << "answers too";
  EXPECT_EQ(softhca::get32(reply->data, 12), 0x22222222U);
  pass(milliseconds(60000));
  EXPECT_FALSE(receive(*active)) << "nothing comes back of what was sent without a timeout";
  EXPECT_EQ(counters_->value(0, Counter::CmReq), 1U);
  EXPECT_EQ(counters_->value(1, Counter::CmRep), 1U);
}

TEST_F(Gsi, OneAgentOfAPortHasTheMethodsOfAClass) {
  auto first = process({0, kCm, kSendMethod, false});
  const auto sender = process({0, kCm, 0, false});  // may send, and hears nothing
  const auto elsewhere = process({1, kCm, kSendMethod, false});
  softhca::AgentRequest request;
  request.mgmt_class = kCm;
  request.class_version = 2;
  request.method_mask[0] = kSendMethod;
  std::uint32_t agent = 0;
  EXPECT_EQ(softhca::register_agent(sessions_, *sender->session, request, agent), EINVAL);
  const std::uint64_t id = first->session->id();
  gsi_->forget_session(id);
  sessions_.erase(id);
  EXPECT_EQ(softhca::register_agent(sessions_, *sender->session, request, agent), 0)
      << "who ends gives it back";
}

TEST_F(Gsi, AGrhIsForThePortThatHasItsGid) {
  const auto active = process({0, kCm, kSendMethod, false});
  const auto passive = process({1, kCm, kSendMethod, false});
  softhca::PortRecord& there = fabric_->model().ports[1];
  there.gid_count = 2;
  there.gids[1] = there.gids[0];
  there.gids[1][15] ^= 0x55;
  ASSERT_TRUE(fabric_->publish());
  UmadHeader header;
  header.agent_id = active->agent;
  header.qpn = htonl(1);
  header.lid = htons(2);
  header.grh_present = 1;
  header.hop_limit = 7;
  header.traffic_class = 0x22;
  header.flow_label = htonl(0x54321);
  const auto heard = [&](const softhca::Gid& gid) {
    header.gid = gid;
    gsi_->handle_send(*active->session, header, cm_message(1, 0x10), now_);
    gsi_->handle_time(now_);
    return receive(*passive);
  };
  for (std::uint8_t index = 0; index < 2; ++index) {
    const auto got = heard(there.gids[index]);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->header.grh_present, 1);
    EXPECT_EQ(got->header.gid_index, index) << "which of its own was meant";
    EXPECT_EQ(got->header.gid, fabric_->model().ports[0].gids[0]) << "who sent it";
    EXPECT_EQ(got->header.hop_limit, 7);
    EXPECT_EQ(got->header.traffic_class, 0x22);
    EXPECT_EQ(ntohl(got->header.flow_label), 0x54321U);
  }
  auto strange = there.gids[0];
  strange[0] ^= 1;
  EXPECT_FALSE(heard(strange)) << "the LID alone is not enough";
}

TEST_F(Gsi, AgentsAreBehindQp1Alone) {
  const auto active = process({0, kCm, kSendMethod, false});
  const auto passive = process({1, kCm, kSendMethod, false});
  UmadHeader header;
  header.agent_id = active->agent;
  header.lid = htons(2);
  for (const std::uint32_t qpn : {0U, 2U, 0x48U}) {
    header.qpn = htonl(qpn);
    gsi_->handle_send(*active->session, header, cm_message(1, 0x10), now_);
    gsi_->handle_time(now_);
    EXPECT_FALSE(receive(*passive)) << qpn;
  }
}

TEST_F(Gsi, FaultsHitWhatTheyName) {
  const auto client = process({0, 0x0A, 0, false});
  const auto two = process({1, 0x0A, 1 << 1, false});
  const auto three = process({2, 0x0A, 1 << 1, false});
  const auto say = [&](std::uint16_t lid, std::uint16_t attribute) {
    auto bytes = mad(1, 5);
    bytes[1] = 0x0A;
    bytes[2] = 1;
    softhca::put16(bytes, 16, attribute);
    send(*client, lid, bytes);
  };
  const auto heard = [&](const auto& at) {
    std::vector<std::uint16_t> attributes;
    while (const auto got = receive(*at)) {
      attributes.push_back(softhca::get16(got->data, 16));
    }
    return attributes;
  };
  using List = std::vector<std::uint16_t>;

  fault({"gsi", "drop", "--src", "H1", "--dst", "H2", "--attr", "0x11", "--nth", "2"});
  for (const std::uint16_t lid : List{2, 3}) {
    for (const std::uint16_t attribute : List{0x10, 0x11, 0x11, 0x11, 0x12}) {
      say(lid, attribute);
    }
  }
  EXPECT_EQ(heard(two), (List{0x10, 0x11, 0x11, 0x12}));
  EXPECT_EQ(heard(three), (List{0x10, 0x11, 0x11, 0x11, 0x12}));
  EXPECT_EQ(faults_.entries()[0].matched, 3U);
  EXPECT_EQ(faults_.entries()[0].hit, 1U);
  faults_.clear();

  fault({"gsi", "duplicate", "--class", "10", "--every", "2"});
  for (std::uint16_t i = 0x20; i < 0x24; ++i) {
    say(2, i);
  }
  EXPECT_EQ(heard(two), (List{0x20, 0x21, 0x21, 0x22, 0x23, 0x23}));
  faults_.clear();

  fault({"gsi", "delay", "--dst", "H2", "--delay", "300", "--count", "1"});
  say(2, 0x30);
  say(2, 0x31);
  EXPECT_EQ(heard(two), (List{0x31}));
  pass(milliseconds(299));
  EXPECT_EQ(heard(two), (List{}));
  pass(milliseconds(1));
  EXPECT_EQ(heard(two), (List{0x30}));
  faults_.clear();

  fault({"gsi", "reorder", "--nth", "1", "--delay", "50"});
  say(2, 0x40);
  say(2, 0x41);
  EXPECT_EQ(heard(two), (List{0x41, 0x40}));
  faults_.clear();
  fault({"gsi", "reorder", "--nth", "1", "--delay", "50"});
  say(2, 0x42);
  pass(milliseconds(50));
  EXPECT_EQ(heard(two), (List{0x42})) << "held back for so long at most";
  faults_.clear();

  fault({"gsi", "corrupt", "--seed", "4"});
  say(2, 0x50);
  const auto damaged = receive(*two);
  ASSERT_TRUE(damaged);
  auto sent = mad(1, 5);
  int bits = 0;
  for (std::size_t i = 24; i < 256; ++i) {
    bits += __builtin_popcount(static_cast<unsigned>(damaged->data[i] ^ sent[i]));
  }
  EXPECT_EQ(bits, 1);
}

TEST_F(Gsi, ChancesAreSeeded) {
  const auto client = process({0, 0x0A, 0, false});
  const auto server = process({1, 0x0A, 1 << 1, false});
  const auto survivors = [&](const char* seed) {
    faults_.clear();
    fault({"gsi", "drop", "--chance", "30%", "--seed", seed});
    std::vector<std::uint32_t> heard;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      auto bytes = mad(1, i);
      bytes[1] = 0x0A;
      bytes[2] = 1;
      send(*client, 2, bytes);
      if (const auto got = receive(*server)) {
        heard.push_back(softhca::get32(got->data, 12));
      }
    }
    return heard;
  };
  const auto first = survivors("1");
  EXPECT_EQ(first, survivors("1"));
  EXPECT_NE(first, survivors("2"));
  EXPECT_GT(first.size(), 600U);
  EXPECT_LT(first.size(), 800U);
}

TEST_F(Gsi, ASubnetAdministratorMayBeBusySilentOrSlow) {
  const auto client = process({0});
  const auto server = process({1, kSa, kGetTable});
  fault({"sa", "busy", "--count", "1"});
  send(*client, 2, mad(0x12, 5), 1000);
  EXPECT_FALSE(receive(*server));
  pass(milliseconds(0));
  const auto busy = receive(*client);
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->data[3], 0x92);
  EXPECT_EQ(softhca::get16(busy->data, 4), 1U) << "Busy";
  EXPECT_EQ(busy->header.status, 0U);
  answer(*server, ask(*client, *server, 6), 10);
  EXPECT_TRUE(receive(*client)) << "the second is served";
  faults_.clear();

  fault({"sa", "silent"});
  send(*client, 2, mad(0x12, 7), 100);
  pass(milliseconds(100));
  EXPECT_FALSE(receive(*server));
  ASSERT_TRUE(receive(*client));
  faults_.clear();

  fault({"sa", "slow", "250"});
  send(*client, 2, mad(0x12, 8), 1000);
  pass(milliseconds(249));
  EXPECT_FALSE(receive(*server));
  pass(milliseconds(1));
  const auto late = receive(*server);
  ASSERT_TRUE(late);
  answer(*server, *late, 10);
  EXPECT_TRUE(receive(*client)) << "answers are not slowed too";
  faults_.clear();

  fault({"sa", "rate", "10"});
  for (std::uint32_t i = 0; i < 20; ++i) {
    send(*client, 2, mad(0x12, 100 + i), 10000);
  }
  int served = 0;
  const auto serve = [&] {
    while (receive(*server)) {
      ++served;
    }
    return served;
  };
  EXPECT_EQ(serve(), 1);
  pass(milliseconds(1000));
  EXPECT_EQ(serve(), 11);
  pass(milliseconds(900));
  EXPECT_EQ(serve(), 20);
}

TEST_F(Gsi, MistakesInWordsAreNamed) {
  const auto mistake = [&](std::vector<std::string> words) {
    const auto rule = softhca::parse_gsi_rule(words, *view_);
    const auto* found = std::get_if<softhca::FaultMistake>(&rule);
    return found == nullptr ? std::string("none") : found->text;
  };
  EXPECT_NE(mistake({}).find("gsi needs drop"), std::string::npos);
  EXPECT_NE(mistake({"lose"}).find("gsi needs drop"), std::string::npos);
  EXPECT_NE(mistake({"drop", "--src", "H9"}).find("no port \"H9\""), std::string::npos);
  EXPECT_NE(mistake({"drop", "--src", "H1:2"}).find("no port"), std::string::npos);
  EXPECT_NE(mistake({"drop", "--chance", "101%"}).find("0% to 100%"), std::string::npos);
  EXPECT_NE(mistake({"drop", "--nth", "0"}).find("from 1"), std::string::npos);
  EXPECT_NE(mistake({"drop", "--attr", "0x10000"}).find("0xffff"), std::string::npos);
  EXPECT_NE(mistake({"drop", "--often", "1"}).find("unknown option"), std::string::npos);
  EXPECT_NE(mistake({"drop", "--nth"}).find("needs a value"), std::string::npos);
  EXPECT_EQ(mistake({"drop", "--src", "H1:softhca0:1", "--chance", "0.5%"}), "none");
  EXPECT_NE(mistake({"drop", "--chance", "30"}).find("0 to 1"), std::string::npos);
}

}  // namespace
