// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "acm/driver/rank_server.hpp"
#include "acm/driver/service_message.hpp"
#include "acm/driver/service_socket.hpp"
#include "acm/temporary_directory.hpp"
#include "base/rng.hpp"
#include "support/seed.hpp"

namespace wireup::acm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::TemporaryDirectory;

PathKey sample_key() {
  PathKey key;
  key.sgid = Gid::make(0xFE80000000000000, Guid(1));
  key.dgid = Gid::make(0xFE80000000000000, Guid(2));
  key.pkey = PKey(0xFFFF);
  key.sl = Sl(3);
  key.service_id = ServiceId(0x0102030405060708);
  key.number = 5;
  key.direction = PathDirection::Inbound;
  return key;
}

RankQuestion sample_question() {
  return {sample_key(), std::nullopt};
}

RankQuestion question_by_name() {
  RankQuestion question = sample_question();
  question.key.dgid = Gid();
  question.address = *mad::AcmAddress::name("node7");
  return question;
}

ServiceReply good_reply() {
  ResolvedPath path;
  path.record.dgid = sample_key().dgid;
  path.record.dlid = Lid(9);
  path.origin = PathOrigin::AcmMulticast;
  path.generation = 4;
  path.age = seconds(2);
  return {sample_question(), path};
}

TEST(ServiceMessage, RequestsComeBack) {
  for (const ServiceOp op : {ServiceOp::Resolve, ServiceOp::PathFailed, ServiceOp::Flush}) {
    const ServiceRequest request{op, sample_question(), Instant(seconds(12))};
    const auto decoded = decode_request(encode(request));
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(*decoded, request);
  }
  ServiceRequest plain{ServiceOp::Resolve, sample_question(), Instant()};
  plain.question.key.sl.reset();
  EXPECT_EQ(*decode_request(encode(plain)), plain);
  const ServiceRequest by_name{ServiceOp::Resolve, question_by_name(), Instant(seconds(1))};
  EXPECT_EQ(*decode_request(encode(by_name)), by_name);
}

TEST(ServiceMessage, RepliesComeBack) {
  const auto decoded = decode_reply(encode(good_reply()));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->question.key, sample_key());
  ASSERT_TRUE(decoded->path.has_value());
  EXPECT_EQ(*decoded->path, *good_reply().path);

  const auto by_name = decode_reply(encode({question_by_name(), good_reply().path}));
  ASSERT_TRUE(by_name.has_value());
  EXPECT_EQ(by_name->question, question_by_name());

  const Error error = Error::make(Errc::NoSubnetManager, "softhca0 port 1: SM LID 1 is silent");
  const auto failed = decode_reply(encode({sample_question(), fail(error)}));
  ASSERT_TRUE(failed.has_value());
  ASSERT_FALSE(failed->path.has_value());
  EXPECT_EQ(failed->path.error(), error);
}

TEST(ServiceMessage, HostileRequests) {
  const ServiceRequestBytes good =
      encode({ServiceOp::Resolve, sample_question(), Instant(seconds(1))});
  const auto refused = [&](std::size_t at, std::uint8_t value) {
    ServiceRequestBytes bytes = good;
    bytes[at] = value;
    return !decode_request(bytes).has_value();
  };
  EXPECT_TRUE(refused(0, 0)) << "magic";
  EXPECT_TRUE(refused(4, 0)) << "operation";
  EXPECT_TRUE(refused(4, 0x81)) << "a reply's operation";
  EXPECT_TRUE(refused(5, 16)) << "SL";
  EXPECT_TRUE(refused(48, 6)) << "kind of the address";
  EXPECT_TRUE(refused(48, 1)) << "an empty name";
  EXPECT_TRUE(refused(49, kMaxPathsPerPeer)) << "number";
  EXPECT_TRUE(refused(50, 2)) << "direction";
  EXPECT_TRUE(refused(120, 0x80)) << "negative deadline";
  for (std::size_t size = 0; size < good.size(); ++size) {
    const std::vector<std::uint8_t> cut(good.begin(),
                                        good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(decode_request(cut).has_value()) << size;
  }
}

TEST(ServiceMessage, HostileReplies) {
  Rng rng(wireup::test::seed(4));
  const ServiceReplyBytes good = encode(good_reply());
  const std::uint64_t rounds = wireup::test::rounds(20000);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    ServiceReplyBytes bytes = good;
    for (std::uint64_t changes = 1 + rng.below(5); changes > 0; --changes) {
      bytes[rng.below(2) == 0 ? rng.below(144) : rng.below(bytes.size())] =
          static_cast<std::uint8_t>(rng.next());
    }
    const auto decoded = decode_reply(bytes);
    if (decoded && !decoded->path) {
      // Texts go to terminals: whatever was sent, they are printable.
      for (const char c : decoded->path.error().what()) {
        ASSERT_TRUE(c >= ' ' && c <= '~');
      }
    } else if (decoded) {
      EXPECT_NE(origin_name(decoded->path->origin), "unknown");
    }
  }
}

TEST(NodeDirectory, IsPrivateAndNamesThePortAndPartition) {
  const TemporaryDirectory parent;
  const std::string path = parent.path() + "/node";
  const auto made = NodeDirectory::open(path, "/dev/shm", Guid(0x1234), PKey(0x8001));
  ASSERT_TRUE(made.has_value()) << made.error().what();
  EXPECT_EQ(made->lock_path(), path + "/acm1-0000000000001234-0001.lock");
  EXPECT_EQ(made->socket_path(3), path + "/acm1-0000000000001234-0001.3.sock");
  EXPECT_NE(made->cache_path(3).find("/dev/shm/wireup-"), std::string::npos);
  EXPECT_NE(made->cache_path(3), made->cache_path(4));
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);

  ASSERT_EQ(chmod(path.c_str(), 0750), 0);
  const auto open_to_others = NodeDirectory::open(path, "/dev/shm", Guid(1), PKey(0xFFFF));
  ASSERT_FALSE(open_to_others.has_value());
  EXPECT_TRUE(open_to_others.error().is(Errc::NoPermission));
  ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  const std::string link = parent.path() + "/link";
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  EXPECT_FALSE(NodeDirectory::open(link, "/dev/shm", Guid(1), PKey(0xFFFF)).has_value());
  const std::string deep = parent.path() + "/" + std::string(100, 'x');
  const auto too_long = NodeDirectory::open(deep, "/dev/shm", Guid(1), PKey(0xFFFF));
  ASSERT_FALSE(too_long.has_value());
  EXPECT_TRUE(too_long.error().is(Errc::InvalidArgument));
}

class NodeLockTest : public testing::Test {
 protected:
  [[nodiscard]] NodeLock open() {
    auto opened = NodeLock::open(path_);
    EXPECT_TRUE(opened.has_value());
    return std::move(*opened);
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/lock";
};

TEST_F(NodeLockTest, OneHolderAnEpoch) {
  NodeLock one = open();
  NodeLock two = open();
  EXPECT_EQ(one.epoch(), 0U);
  EXPECT_TRUE(*one.try_lock(0));
  EXPECT_FALSE(*two.try_lock(0));
  two.end_epoch(0);
  EXPECT_EQ(one.epoch(), 1U);
  two.end_epoch(0);
  EXPECT_EQ(one.epoch(), 1U) << "an epoch ends once";
  EXPECT_TRUE(*two.try_lock(1)) << "the next epoch's lock is another one";
  EXPECT_FALSE(*one.try_lock(1));
  two.unlock(1);
  EXPECT_TRUE(*one.try_lock(1));
}

TEST_F(NodeLockTest, IsFreeWhenItsHolderDies) {
  NodeLock mine = open();
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto lock = NodeLock::open(path_);
    const bool locked = lock && *lock->try_lock(0);
    static_cast<void>(!write(ready[1], locked ? "y" : "n", 1));
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  EXPECT_FALSE(*mine.try_lock(0));
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(*mine.try_lock(0));
  close(ready[0]);
  close(ready[1]);
}

TEST_F(NodeLockTest, BeatsAreSeenByTheOthers) {
  NodeLock one = open();
  NodeLock two = open();
  const Instant now{seconds(1000)};
  EXPECT_EQ(two.silence(now), Duration::max());
  one.beat(now);
  EXPECT_EQ(two.silence(now + seconds(3)), seconds(3));
  EXPECT_EQ(two.silence(now - seconds(100)), Duration::max()) << "a beat of another boot";
}

class RankServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = listen_at(path_);
    ASSERT_TRUE(listener.has_value()) << listener.error().what();
    auto server = RankServer::open(std::move(*listener));
    ASSERT_TRUE(server.has_value());
    server_.emplace(std::move(*server));
  }
  [[nodiscard]] UniqueFd connect() {
    auto fd = connect_to(path_);
    EXPECT_TRUE(fd.has_value()) << fd.error().what();
    server_->progress();
    return std::move(*fd);
  }
  [[nodiscard]] static bool is_closed(int fd) {
    ServiceReplyBytes buffer{};
    return receive_packet(fd, buffer).outcome == ReceiveOutcome::Closed;
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/sock";
  std::optional<RankServer> server_;
};

TEST_F(RankServerTest, CarriesRequestsAndReplies) {
  const UniqueFd one = connect();
  const UniqueFd two = connect();
  EXPECT_EQ(server_->ranks(), 2U);
  const ServiceRequest request{ServiceOp::Resolve, sample_question(), Instant(seconds(3))};
  ASSERT_EQ(send_packet(two.value(), encode(request)), SendOutcome::Sent);
  server_->progress();
  const auto received = server_->poll_request();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->request, request);
  server_->reply(received->rank, good_reply());
  ServiceReplyBytes buffer{};
  const ReceivedPacket packet = receive_packet(two.value(), buffer);
  ASSERT_EQ(packet.outcome, ReceiveOutcome::Received);
  EXPECT_TRUE(decode_reply(std::span(buffer).first(packet.size)).has_value());
  EXPECT_EQ(receive_packet(one.value(), buffer).outcome, ReceiveOutcome::WouldBlock);
}

TEST_F(RankServerTest, WhoBreaksTheFormatIsDroppedAlone) {
  const UniqueFd good = connect();
  const std::vector<std::uint8_t> oversized(5000, 1);
  const std::vector<std::uint8_t> tiny(3, 1);
  const std::vector<std::uint8_t> garbage(ServiceRequest::kSize, 0xFF);
  for (const auto& packet : {oversized, tiny, garbage}) {
    const UniqueFd bad = connect();
    ASSERT_EQ(send_packet(bad.value(), packet), SendOutcome::Sent);
    server_->progress();
    EXPECT_TRUE(is_closed(bad.value()));
    EXPECT_TRUE(server_->poll_gone().has_value());
  }
  EXPECT_EQ(server_->ranks(), 1U);
  EXPECT_FALSE(is_closed(good.value()));
}

TEST_F(RankServerTest, ARankThatGoesIsReported) {
  UniqueFd one = connect();
  ASSERT_EQ(send_packet(one.value(), encode({ServiceOp::Resolve, sample_question(), Instant()})),
            SendOutcome::Sent);
  server_->progress();
  const auto request = server_->poll_request();
  one.reset();
  server_->progress();
  EXPECT_EQ(server_->poll_gone(), request->rank);
  server_->reply(request->rank, good_reply());
  EXPECT_EQ(server_->ranks(), 0U);
}

TEST_F(RankServerTest, RepliesWaitForARankThatDoesNotRead) {
  const UniqueFd slow = connect();
  const UniqueFd other = connect();
  ASSERT_EQ(send_packet(slow.value(), encode({ServiceOp::Resolve, sample_question(), Instant()})),
            SendOutcome::Sent);
  server_->progress();
  const auto request = server_->poll_request();
  ASSERT_TRUE(request.has_value());
  constexpr int kReplies = 5000;
  for (int i = 0; i < kReplies; ++i) {
    server_->reply(request->rank, good_reply());
  }
  // The other rank is served meanwhile.
  ASSERT_EQ(send_packet(other.value(), encode({ServiceOp::Resolve, sample_question(), Instant()})),
            SendOutcome::Sent);
  server_->progress();
  EXPECT_TRUE(server_->poll_request().has_value());
  int received = 0;
  for (int turn = 0; turn < 2 * kReplies && received < kReplies; ++turn) {
    ServiceReplyBytes buffer{};
    while (receive_packet(slow.value(), buffer).outcome == ReceiveOutcome::Received) {
      ++received;
    }
    server_->progress();
  }
  EXPECT_EQ(received, kReplies);
}

TEST_F(RankServerTest, ThreeHundredRanks) {
  std::vector<UniqueFd> ranks;
  for (int i = 0; i < 300; ++i) {
    auto fd = connect_to(path_);
    ASSERT_TRUE(fd.has_value()) << i << ": " << fd.error().what();
    ranks.push_back(std::move(*fd));
  }
  for (int turn = 0; turn < 100 && server_->ranks() < ranks.size(); ++turn) {
    server_->progress();
  }
  EXPECT_EQ(server_->ranks(), ranks.size());
}

TEST(ServiceSocket, NobodyListensIsNotFound) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/sock";
  EXPECT_TRUE(connect_to(path).error().is(Errc::NotFound));
  { const auto listener = listen_at(path); }
  EXPECT_TRUE(connect_to(path).error().is(Errc::NotFound)) << "a dead listener's file";
  EXPECT_TRUE(listen_at(path).has_value()) << "is replaced";
}

}  // namespace
}  // namespace wireup::acm
