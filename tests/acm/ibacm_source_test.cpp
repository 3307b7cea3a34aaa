// SPDX-License-Identifier: BSD-3-Clause
//
// The paths that an ibacm tells for a port, and what of it is believed.
#include "acm/driver/ibacm_source.hpp"

#include <gtest/gtest.h>

#include "acm/driver/unprivileged_port.hpp"
#include "acm/fake_ibacm.hpp"
#include "acm/temporary_directory.hpp"

namespace wireup::acm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeIbacm;
using test::FakeSession;

constexpr std::uint64_t kPrefix = 0xFE80000000000000;
constexpr PKey kTablePKey{0x7FFF};

verbs::PortInfo port_of(std::uint16_t lid = 4) {
  verbs::PortInfo port;
  port.device = "softhca0";
  port.port = 2;
  port.node_guid = Guid(0x100);
  port.port_guid = Guid(0x102);
  port.gid = Gid::make(kPrefix, Guid(0x102));
  port.lid = Lid(lid);
  port.lmc = 1;
  port.sm_lid = Lid(1);
  port.pkeys = {kTablePKey, PKey(0x8001)};
  port.active_mtu = 4;
  port.active_rate = 16;
  port.active = true;
  port.state = "ACTIVE";
  return port;
}

Gid peer() {
  return Gid::make(kPrefix, Guid(0x201));
}

PathKey key_to_peer() {
  return {port_of().gid, peer(), kTablePKey, std::nullopt, ServiceId()};
}

mad::PathRecord good_path() {
  mad::PathRecord record;
  record.sgid = port_of().gid;
  record.dgid = peer();
  record.slid = Lid(5);
  record.dlid = Lid(9);
  record.pkey = PKey(0xFFFF);
  record.sl = Sl(3);
  record.mtu = 4;
  record.rate = 16;
  return record;
}

mad::AcmAddress name(const char* text) {
  return mad::AcmAddress::name(text).value();
}

class IbacmSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto source = IbacmSource::open(options(), port_of(), kTablePKey);
    ASSERT_TRUE(source.has_value());
    source_.emplace(std::move(*source));
  }
  [[nodiscard]] IbacmClient::Options options() const {
    IbacmClient::Options result;
    result.socket = directory_.path() + "/ibacm.sock";
    result.connections = 1;
    return result;
  }
  IbacmSource& source() { return *source_; }
  template <typename To>
  void ask(IbacmSource::QuestionId id, const To& to) {
    source().ask(id, to, now_ + seconds(5), now_);
  }
  [[nodiscard]] Result<mad::PathRecord> answer(IbacmSource::QuestionId id) {
    source().progress(now_);
    auto answer = source().poll_answer();
    EXPECT_TRUE(answer.has_value()) << "no answer";
    if (!answer.has_value()) {
      return fail(Errc::Internal);
    }
    EXPECT_EQ(answer->id, id);
    return answer->path;
  }
  /// The answer to a question for the peer's GID when ibacm says `record`.
  [[nodiscard]] Result<mad::PathRecord> when_told(const mad::PathRecord& record,
                                                  const PathKey& key = key_to_peer()) {
    ask(1, key);
    if (!session_.has_value()) {
      session_.emplace(service_.session());
    }
    session_->give(session_->request(), record);
    return answer(1);
  }

  test::TemporaryDirectory directory_;
  FakeIbacm service_{options().socket};
  std::optional<FakeSession> session_;
  Instant now_{seconds(1000)};

 private:
  std::optional<IbacmSource> source_;
};

TEST_F(IbacmSourceTest, AsksForAGidAsAPath) {
  ask(42, key_to_peer());
  FakeSession session = service_.session();
  const ClientRequest request = session.request();
  const auto& question = std::get<PathQuestion>(request.body);
  EXPECT_EQ(question.path.sgid, port_of().gid);
  EXPECT_EQ(question.path.dgid, peer());
  EXPECT_EQ(question.path.pkey, kTablePKey);
  EXPECT_TRUE(question.path.reversible);
  EXPECT_FALSE(question.query_sa);
  session.give(request, good_path());
  const auto path = answer(42);
  ASSERT_TRUE(path.has_value()) << path.error().what();
  EXPECT_EQ(*path, good_path());
}

TEST_F(IbacmSourceTest, AnSlAndAServiceAreDemandedOfTheSa) {
  PathKey key = key_to_peer();
  key.sl = Sl(3);
  ask(1, key);
  FakeSession session = service_.session();
  ClientRequest request = session.request();
  EXPECT_TRUE(std::get<PathQuestion>(request.body).query_sa);
  EXPECT_EQ(std::get<PathQuestion>(request.body).path.sl, Sl(3));
  session.give(request, good_path());
  EXPECT_TRUE(answer(1).has_value());
  key.sl = Sl(4);
  ask(2, key);
  session.give(session.request(), good_path());
  const auto other = answer(2);
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().what().find("SL"), std::string_view::npos);
  key.sl.reset();
  key.service_id = ServiceId(7);
  ask(3, key);
  request = session.request();
  EXPECT_TRUE(std::get<PathQuestion>(request.body).query_sa);
  EXPECT_EQ(std::get<PathQuestion>(request.body).path.service_id, ServiceId(7));
}

TEST_F(IbacmSourceTest, AFailedPathIsAskedOfTheSa) {
  ask(1, key_to_peer());
  FakeSession session = service_.session();
  session.give(session.request(), good_path());
  EXPECT_TRUE(answer(1).has_value());
  source().path_failed(peer());
  ask(2, key_to_peer());
  EXPECT_TRUE(std::get<PathQuestion>(session.request().body).query_sa);
}

TEST_F(IbacmSourceTest, ALid) {
  ask(1, mad::AcmAddress::lid(Lid(9)));
  FakeSession session = service_.session();
  ClientRequest request = session.request();
  EXPECT_EQ(std::get<PathQuestion>(request.body).path.dlid, Lid(9));
  EXPECT_EQ(std::get<PathQuestion>(request.body).path.slid, port_of().lid);
  session.give(request, good_path());
  EXPECT_TRUE(answer(1).has_value());
  ask(2, mad::AcmAddress::lid(Lid(8)));
  session.give(session.request(), good_path());
  EXPECT_FALSE(answer(2).has_value()) << "the path leads to LID 9";
}

TEST_F(IbacmSourceTest, APathOfAnotherQuestionIsNotBelieved) {
  EXPECT_TRUE(when_told(good_path()).has_value());
  using Change = void (*)(mad::PathRecord&);
  const Change changes[] = {
      [](mad::PathRecord& p) { p.sgid = Gid::make(kPrefix, Guid(0x999)); },
      [](mad::PathRecord& p) { p.dgid = Gid::make(kPrefix, Guid(0x999)); },
      [](mad::PathRecord& p) { p.dgid = Gid(); },
      [](mad::PathRecord& p) { p.slid = Lid(6); },  // the port has 4 and 5
      [](mad::PathRecord& p) { p.slid = Lid(); },
      [](mad::PathRecord& p) { p.dlid = Lid(); },
      [](mad::PathRecord& p) { p.dlid = Lid(0xC000); },
      [](mad::PathRecord& p) { p.pkey = PKey(0x8001); },
      [](mad::PathRecord& p) { p.mtu = 0; },
      [](mad::PathRecord& p) { p.mtu = 6; },
      [](mad::PathRecord& p) { p.rate = 63; },
  };
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    mad::PathRecord record = good_path();
    changes[i](record);
    const auto path = when_told(record);
    ASSERT_FALSE(path.has_value()) << i;
    EXPECT_TRUE(path.error().is(Errc::PathUnresolved)) << i;
  }
}

TEST_F(IbacmSourceTest, ARefusalHasItsReason) {
  ask(1, key_to_peer());
  FakeSession session = service_.session();
  session.refuse(session.request(), ClientStatus::TimedOut);
  const auto path = answer(1);
  ASSERT_FALSE(path.has_value());
  EXPECT_TRUE(path.error().is(Errc::PathUnresolved));
  EXPECT_NE(path.error().what().find("nobody answered"), std::string_view::npos);
  EXPECT_NE(path.error().what().find("GID fe80"), std::string_view::npos);
}

EndpointReply endpoint(const EndpointQuery& query, Guid device, std::uint8_t port, PKey pkey,
                       std::vector<std::string> addresses) {
  return {query, device, port, 2, pkey, "ibacmp", std::move(addresses)};
}

TEST_F(IbacmSourceTest, ANameIsAskedFromAnAddressOfThePort) {
  ask(1, name("node2"));
  ask(2, mad::AcmAddress::ipv4({10, 0, 0, 2}));
  FakeSession session = service_.session();
  const auto answer_endpoint = [&](Guid device, std::uint8_t port, PKey pkey,
                                   std::uint8_t expected) {
    const ClientRequest request = session.request();
    const auto& query = std::get<EndpointQuery>(request.body);
    EXPECT_EQ(query, (EndpointQuery{expected, 2}));
    session.reply({ClientOp::EndpointQuery, request.tid, ClientStatus::Success,
                   endpoint(query, device, port, pkey, {"10.0.0.1", "node1"})});
    source().progress(now_);
  };
  answer_endpoint(Guid(0x777), 2, PKey(0xFFFF), 1);
  answer_endpoint(Guid(0x100), 2, PKey(0x8001), 2);
  answer_endpoint(Guid(0x100), 2, PKey(0xFFFF), 3);
  ClientRequest request = session.request();
  EXPECT_EQ(std::get<AddressQuestion>(request.body).source, name("node1"));
  EXPECT_EQ(std::get<AddressQuestion>(request.body).destination, name("node2"));
  session.give(request, good_path());
  EXPECT_TRUE(answer(1).has_value());
  request = session.request();
  EXPECT_EQ(std::get<AddressQuestion>(request.body).source, mad::AcmAddress::ipv4({10, 0, 0, 1}));
  session.give(request, good_path());
  EXPECT_TRUE(answer(2).has_value());
  // Known now.
  ask(3, name("node3"));
  EXPECT_EQ(std::get<AddressQuestion>(session.request().body).destination, name("node3"));
}

TEST_F(IbacmSourceTest, WithoutAnEndpointThereIsNoName) {
  ask(1, name("node2"));
  FakeSession session = service_.session();
  session.refuse(session.request(), ClientStatus::Invalid);
  const auto path = answer(1);
  ASSERT_FALSE(path.has_value());
  EXPECT_NE(path.error().what().find("softhca0 port 2"), std::string_view::npos);
  // It was asked for all of its endpoints; a name that comes later makes it be asked again.
  ask(2, name("node2"));
  EXPECT_TRUE(std::holds_alternative<EndpointQuery>(session.request().body));
}

TEST_F(IbacmSourceTest, ANameThatWaitsForASourceHasItsDeadline) {
  source().ask(1, name("node2"), now_ + seconds(5), now_);
  source().ask(2, name("node3"), now_ + seconds(1), now_);
  EXPECT_EQ(source().poll_timeout(), now_ + seconds(1));
  now_ += seconds(1);
  EXPECT_TRUE(answer(2).error().is(Errc::Timeout));
  now_ += seconds(4);
  EXPECT_TRUE(answer(1).error().is(Errc::Timeout));
}

class UnprivilegedPortTest : public IbacmSourceTest {
 protected:
  void open_port() {
    UnprivilegedPort::Options wanted;
    wanted.ibacm = options();
    wanted.lacks = Error::make(Errc::NoPermission, "CAP_NET_RAW is missing");
    wanted.look = [this]() -> Result<verbs::PortInfo> { return seen_; };
    wanted.kernel_device = "/nonexistent/rdma_cm";
    auto opened = UnprivilegedPort::open(wanted, now_);
    ASSERT_TRUE(opened.has_value()) << opened.error().what();
    port_ = std::move(*opened);
  }
  verbs::PortInfo seen_ = port_of();
  std::unique_ptr<UnprivilegedPort> port_;
};

TEST_F(UnprivilegedPortTest, TellsWhoToldThePath) {
  open_port();
  EXPECT_EQ(port_->pkey(), kTablePKey);
  port_->ask(5, key_to_peer(), now_ + seconds(5), now_);
  FakeSession session = service_.session();
  session.give(session.request(), good_path());
  port_->progress(now_);
  const auto answer = port_->poll_answer();
  ASSERT_TRUE(answer.has_value() && answer->path.has_value());
  EXPECT_EQ(answer->id, 5U);
  EXPECT_EQ(answer->origin, PathOrigin::Ibacm);
}

TEST_F(UnprivilegedPortTest, NamesBothReasonsWhenNobodyHelps) {
  UnprivilegedPort::Options wanted;
  wanted.ibacm.socket = directory_.path() + "/nobody";
  wanted.kernel_device = "/nonexistent/rdma_cm";
  wanted.lacks = Error::make(Errc::NoPermission, "CAP_NET_RAW is missing");
  wanted.look = [this]() -> Result<verbs::PortInfo> { return seen_; };
  auto opened = UnprivilegedPort::open(wanted, now_);
  ASSERT_TRUE(opened.has_value());
  (*opened)->ask(1, key_to_peer(), now_ + seconds(5), now_);
  (*opened)->progress(now_);
  const auto answer = (*opened)->poll_answer();
  ASSERT_TRUE(answer.has_value() && !answer->path.has_value());
  EXPECT_TRUE(answer->path.error().is(Errc::NoPermission));
  const auto text = answer->path.error().what();
  EXPECT_NE(text.find("CAP_NET_RAW is missing"), std::string_view::npos) << text;
  EXPECT_NE(text.find(directory_.path() + "/nobody"), std::string_view::npos) << text;
  EXPECT_NE(text.find("no rdma_cm"), std::string_view::npos) << text;
}

TEST_F(UnprivilegedPortTest, AnotherLidVoidsWhatWasLearned) {
  open_port();
  port_->progress(now_ + seconds(1));
  EXPECT_FALSE(port_->poll_changed());
  EXPECT_LE(port_->poll_timeout(), now_ + seconds(2));
  // Down and up again as it was.
  seen_.active = false;
  port_->progress(now_ + seconds(2));
  seen_.active = true;
  port_->progress(now_ + seconds(3));
  EXPECT_FALSE(port_->poll_changed());
  seen_ = port_of(40);
  port_->progress(now_ + seconds(4));
  EXPECT_TRUE(port_->poll_changed());
  EXPECT_FALSE(port_->poll_changed()) << "once";
  EXPECT_EQ(port_->info().lid, Lid(40));
}

TEST_F(UnprivilegedPortTest, APortThatCannotHavePaths) {
  UnprivilegedPort::Options wanted;
  wanted.ibacm = options();
  wanted.look = [this]() -> Result<verbs::PortInfo> { return seen_; };
  seen_.active = false;
  EXPECT_TRUE(UnprivilegedPort::open(wanted, now_).error().is(Errc::NoSubnetManager));
  seen_.active = true;
  wanted.pkey = PKey(0x1234);
  EXPECT_TRUE(UnprivilegedPort::open(wanted, now_).error().is(Errc::InvalidArgument));
}

}  // namespace
}  // namespace wireup::acm
