// SPDX-License-Identifier: BSD-3-Clause
//
// The client of ibacm's socket against a service that does what the test says. Time is the test's
// own, and nothing waits.
#include "acm/driver/ibacm_client.hpp"

#include <poll.h>
#include <sys/stat.h>

#include "acm/fake_ibacm.hpp"
#include "acm/temporary_directory.hpp"

namespace wireup::acm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeIbacm;
using test::FakeSession;

ClientRequest question(std::uint64_t tid) {
  PathQuestion body;
  body.path.dlid = Lid(static_cast<std::uint16_t>(tid));
  return {ClientOp::Resolve, Tid(tid), body};
}

mad::PathRecord path_to(std::uint16_t lid) {
  mad::PathRecord record;
  record.dlid = Lid(lid);
  return record;
}

class IbacmClientTest : public testing::Test {
 protected:
  void open(std::size_t connections = 2, unsigned tries = 2) {
    IbacmClient::Options options;
    options.socket = path();
    options.connections = connections;
    options.tries = tries;
    auto client = IbacmClient::open(options);
    ASSERT_TRUE(client.has_value()) << client.error().what();
    client_.emplace(std::move(*client));
  }
  [[nodiscard]] std::string path() const { return directory_.path() + "/ibacm.sock"; }
  IbacmClient& client() { return *client_; }
  void ask(std::uint64_t tid, Duration patience = seconds(10)) {
    client().ask(question(tid), now_ + patience, now_);
  }
  void advance(Duration duration) {
    now_ += duration;
    client().progress(now_);
  }
  /// A service comes, answers question 1, and goes.
  void be_answered_once() {
    FakeIbacm service(path());
    ask(1);
    FakeSession session = service.session();
    session.give(session.request(), path_to(1));
    EXPECT_EQ(lid_of_answer(1), 1);
  }
  /// The LID of the path that is the answer to `tid`.
  [[nodiscard]] std::uint16_t lid_of_answer(std::uint64_t tid) {
    client().progress(now_);
    const auto answer = client().poll_answer();
    EXPECT_TRUE(answer.has_value()) << "no answer";
    if (!answer.has_value() || !answer->reply) {
      EXPECT_TRUE(!answer.has_value()) << answer->reply.error().what();
      return 0;
    }
    EXPECT_EQ(answer->tid, Tid(tid));
    return std::get<ResolveReply>(answer->reply->body).paths.front().record.dlid.value();
  }
  [[nodiscard]] Errc error_of_answer(std::uint64_t tid) {
    client().progress(now_);
    const auto answer = client().poll_answer();
    EXPECT_TRUE(answer.has_value()) << "no answer";
    if (!answer.has_value() || answer->reply) {
      return Errc{};
    }
    EXPECT_EQ(answer->tid, Tid(tid));
    return static_cast<Errc>(answer->reply.error().code().value());
  }
  [[nodiscard]] bool is_readable() {
    pollfd descriptor{client().fd(), POLLIN, 0};
    return poll(&descriptor, 1, 0) == 1;
  }

  test::TemporaryDirectory directory_;
  Instant now_{seconds(1000)};

 private:
  std::optional<IbacmClient> client_;
};

TEST_F(IbacmClientTest, OneQuestionAtATimeOnEachConnection) {
  FakeIbacm service(path());
  open(2);
  for (const std::uint64_t tid : {1U, 2U, 3U}) {
    ask(tid);
  }
  FakeSession first = service.session();
  FakeSession second = service.session();
  EXPECT_FALSE(service.accept().has_value());
  const ClientRequest one = first.request();
  EXPECT_EQ(one, question(1));
  EXPECT_EQ(second.request(), question(2));
  EXPECT_FALSE(is_readable());
  second.give(question(2), path_to(22));
  EXPECT_TRUE(is_readable());
  EXPECT_EQ(lid_of_answer(2), 22);
  EXPECT_EQ(second.request(), question(3)) << "on the connection that is free now";
  first.refuse(one, ClientStatus::NoData);
  second.give(question(3), path_to(33));
  client().progress(now_);
  const auto refused = client().poll_answer();
  ASSERT_TRUE(refused.has_value() && refused->reply.has_value());
  EXPECT_EQ(refused->reply->status, ClientStatus::NoData);
  EXPECT_EQ(lid_of_answer(3), 33);
  EXPECT_EQ(client().pending(), 0U);
  EXPECT_EQ(client().connections(), 2U) << "they are kept";
  EXPECT_FALSE(client().poll_timeout().has_value());
}

TEST_F(IbacmClientTest, WhereNobodyListensItSaysSoAtOnce) {
  open();
  ask(1);
  EXPECT_EQ(error_of_answer(1), Errc::NotFound);
  // Between two attempts to connect, too.
  ask(2);
  EXPECT_EQ(error_of_answer(2), Errc::NotFound);
  EXPECT_FALSE(has_listener(path()));
  EXPECT_FALSE(has_listener(""));
  // It comes later.
  FakeIbacm service(path());
  EXPECT_TRUE(has_listener(path()));
  EXPECT_TRUE(service.session().is_at_end());
  now_ += seconds(1);
  ask(3);
  FakeSession session = service.session();
  session.give(session.request(), path_to(3));
  EXPECT_EQ(lid_of_answer(3), 3);
}

TEST_F(IbacmClientTest, ARestartIsWaitedFor) {
  open();
  be_answered_once();
  ask(2);
  client().progress(now_);
  EXPECT_FALSE(client().poll_answer().has_value());
  ASSERT_TRUE(client().poll_timeout().has_value());
  EXPECT_LE(*client().poll_timeout(), now_ + milliseconds(20)) << "soon";
  FakeIbacm service(path());
  advance(milliseconds(20));
  FakeSession session = service.session();
  session.give(session.request(), path_to(2));
  EXPECT_EQ(lid_of_answer(2), 2);
}

TEST_F(IbacmClientTest, OneThatIsGoneForGoodIsNotWaitedForLong) {
  open();
  be_answered_once();
  ask(2, seconds(60));
  Instant end = now_ + seconds(10);
  int turns = 0;
  std::optional<IbacmClient::Answer> answer;
  while (!answer.has_value() && now_ < end) {
    now_ = std::max(now_, client().poll_timeout().value_or(end));
    client().progress(now_);
    answer = client().poll_answer();
    ++turns;
  }
  ASSERT_TRUE(answer.has_value() && !answer->reply.has_value());
  EXPECT_TRUE(answer->reply.error().is(Errc::NotFound));
  EXPECT_LE(now_, Instant(seconds(1005)));
  EXPECT_LE(turns, 20) << "the waits between the attempts grow";
  // A short deadline counts before that, and has the same reason.
  ask(3, milliseconds(1));
  EXPECT_EQ(error_of_answer(3), Errc::NotFound);
}

TEST_F(IbacmClientTest, AQuestionThatWasHungUpOnIsPutAgain) {
  FakeIbacm service(path());
  open(1, 2);
  ask(1);
  ask(2);
  EXPECT_EQ(service.session().request(), question(1)) << "and the session ends";
  client().progress(now_);
  {
    FakeSession session = service.session();
    EXPECT_EQ(session.request(), question(1)) << "again, and before the next one";
  }
  client().progress(now_);
  const auto answer = client().poll_answer();
  ASSERT_TRUE(answer.has_value() && !answer->reply.has_value());
  EXPECT_TRUE(answer->reply.error().is(Errc::PeerGone));
  FakeSession session = service.session();
  session.give(session.request(), path_to(2));
  EXPECT_EQ(lid_of_answer(2), 2);
}

TEST_F(IbacmClientTest, AHangUpBetweenQuestionsIsNobodysTrouble) {
  FakeIbacm service(path());
  open(1, 1);
  ask(1);
  {
    FakeSession session = service.session();
    session.give(session.request(), path_to(1));
    EXPECT_EQ(lid_of_answer(1), 1);
  }
  client().progress(now_);
  EXPECT_EQ(client().connections(), 0U);
  EXPECT_FALSE(client().poll_answer().has_value());
  ask(2);
  FakeSession session = service.session();
  session.give(session.request(), path_to(2));
  EXPECT_EQ(lid_of_answer(2), 2);
}

TEST_F(IbacmClientTest, ADeadlineEndsItsConnection) {
  FakeIbacm service(path());
  open(1);
  ask(1, milliseconds(500));
  ask(2, seconds(10));
  FakeSession late = service.session();
  EXPECT_EQ(late.request(), question(1));
  EXPECT_EQ(client().poll_timeout(), now_ + milliseconds(500));
  advance(milliseconds(499));
  EXPECT_FALSE(client().poll_answer().has_value());
  now_ += milliseconds(1);
  EXPECT_EQ(error_of_answer(1), Errc::Timeout);
  EXPECT_TRUE(late.is_at_end()) << "a late answer shall not be taken for that of the next";
  FakeSession session = service.session();
  EXPECT_EQ(session.request(), question(2));
  session.give(question(2), path_to(2));
  EXPECT_EQ(lid_of_answer(2), 2);
}

TEST_F(IbacmClientTest, AQuestionThatWasNeverSentHasADeadlineToo) {
  FakeIbacm service(path());
  open(1);
  ask(1, seconds(10));
  ask(2, milliseconds(10));
  now_ += milliseconds(10);
  EXPECT_EQ(error_of_answer(2), Errc::Timeout);
  FakeSession session = service.session();
  session.give(session.request(), path_to(1));
  EXPECT_EQ(lid_of_answer(1), 1);
}

TEST_F(IbacmClientTest, AnAnswerInPieces) {
  FakeIbacm service(path());
  open();
  ask(1);
  FakeSession session = service.session();
  const auto bytes =
      encode_client_reply({ClientOp::Resolve, session.request().tid, ClientStatus::Success,
                           ResolveReply{{{path_flag::kUniversal, path_to(1)}}, std::nullopt}});
  for (const std::uint8_t byte : bytes) {
    EXPECT_FALSE(client().poll_answer().has_value());
    session.write({&byte, 1});
    client().progress(now_);
  }
  EXPECT_EQ(lid_of_answer(1), 1);
}

TEST_F(IbacmClientTest, AnEndpointsAnswerIsLong) {
  FakeIbacm service(path());
  open();
  client().ask({ClientOp::EndpointQuery, Tid(7), EndpointQuery{1, 0}}, now_ + seconds(1), now_);
  FakeSession session = service.session();
  EndpointReply body;
  body.query = {1, 0};
  body.addresses.assign(100, "node1");
  session.reply({ClientOp::EndpointQuery, session.request().tid, ClientStatus::Success, body});
  client().progress(now_);
  const auto answer = client().poll_answer();
  ASSERT_TRUE(answer.has_value() && answer->reply.has_value());
  EXPECT_EQ(std::get<EndpointReply>(answer->reply->body).addresses.size(), 100U);
}

/// What a service that is out of its mind may send in place of an answer.
class HostileIbacm : public IbacmClientTest,
                     public testing::WithParamInterface<std::vector<std::uint8_t>> {};

TEST_P(HostileIbacm, CostsItsConnection) {
  FakeIbacm service(path());
  open(1);
  ask(1);
  FakeSession hostile = service.session();
  EXPECT_EQ(hostile.request(), question(1));
  hostile.write(GetParam());
  EXPECT_EQ(error_of_answer(1), Errc::Malformed);
  EXPECT_TRUE(hostile.is_at_end());
  ask(2);
  FakeSession session = service.session();
  session.give(session.request(), path_to(2));
  EXPECT_EQ(lid_of_answer(2), 2);
}

std::vector<std::uint8_t> header(std::uint8_t version, std::uint8_t op, std::uint16_t length,
                                 std::uint8_t tid) {
  std::vector<std::uint8_t> bytes(16);
  bytes[0] = version;
  bytes[1] = op;
  // Host byte order, as in every resolve message; written out for the usual host.
  bytes[6] = static_cast<std::uint8_t>(length & 0xFFU);
  bytes[7] = static_cast<std::uint8_t>(length >> 8U);
  bytes[15] = tid;
  return bytes;
}

std::vector<std::uint8_t> endpoint_refusal(std::uint8_t tid) {
  auto bytes = header(1, 0x83, 0, tid);
  bytes[2] = 2;
  bytes[7] = 16;  // big-endian here
  return bytes;
}

std::vector<std::uint8_t> good_without_path(std::uint8_t tid) {
  return header(1, 1, 16, tid);
}

std::vector<std::uint8_t> refusal(std::uint8_t tid) {
  auto bytes = header(1, 1, 16, tid);
  bytes[2] = 3;
  return bytes;
}

INSTANTIATE_TEST_SUITE_P(Bytes, HostileIbacm,
                         testing::Values(std::vector<std::uint8_t>(16, 0),
                                         std::vector<std::uint8_t>(16, 0xFF), header(2, 1, 16, 1),
                                         header(1, 9, 16, 1), header(1, 1, 15, 1),
                                         header(1, 1, 0, 1), header(1, 1, 65535, 1),
                                         header(1, 1, 593, 1), good_without_path(1), refusal(2),
                                         endpoint_refusal(1)));

TEST_F(IbacmClientTest, BytesThatNobodyAskedFor) {
  FakeIbacm service(path());
  open(1);
  ask(1);
  FakeSession session = service.session();
  const ClientRequest request = session.request();
  session.give(request, path_to(1));
  session.give(request, path_to(9));
  EXPECT_EQ(lid_of_answer(1), 1);
  client().progress(now_);
  EXPECT_FALSE(client().poll_answer().has_value());
  EXPECT_EQ(client().connections(), 0U);
}

TEST_F(IbacmClientTest, AFullQueueOfConnectionsIsWaitedFor) {
  FakeIbacm service(path(), 0);
  const UniqueFd other = FakeIbacm::connect_to(path());
  open(1);
  ask(1);
  client().progress(now_);
  EXPECT_FALSE(client().poll_answer().has_value()) << "ibacm lets one connection wait";
  EXPECT_TRUE(has_listener(path()));
  static_cast<void>(service.accept());
  advance(milliseconds(50));
  FakeSession session = service.session();
  session.give(session.request(), path_to(1));
  EXPECT_EQ(lid_of_answer(1), 1);
}

TEST_F(IbacmClientTest, OnlyRootsAndTheUsersOwnServiceIsAsked) {
  if (geteuid() != 0) {
    FakeIbacm own(path());
    open();
    ask(1);
    EXPECT_EQ(own.session().request(), question(1));
    return;
  }
  // A socket's owner is who called listen().
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_EQ(chmod(directory_.path().c_str(), 0777), 0);
  ASSERT_EQ(seteuid(65534), 0);
  std::optional<FakeIbacm> other(path());
  ASSERT_EQ(seteuid(0), 0);
  open();
  ask(1);
  EXPECT_EQ(error_of_answer(1), Errc::NoPermission);
}

TEST(IbacmClientOpen, ANameThatFitsNoSocket) {
  IbacmClient::Options options;
  options.socket = std::string(200, 'x');
  const auto client = IbacmClient::open(options);
  ASSERT_FALSE(client.has_value());
  EXPECT_TRUE(client.error().is(Errc::InvalidArgument));
  EXPECT_FALSE(has_listener(options.socket));
}

}  // namespace
}  // namespace wireup::acm
