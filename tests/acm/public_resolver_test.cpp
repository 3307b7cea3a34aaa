// SPDX-License-Identifier: BSD-3-Clause
//
// The node's service as ranks of any user see it, on a machine without an RDMA device: the service
// answers that there is no device, and so does a rank's own resolver; who answered is seen by who
// is the resolver. tests/acm/test_node_users.py has paths, and users.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "acm/cache/node_cache.hpp"
#include "acm/driver/node_client.hpp"
#include "acm/driver/resolver.hpp"
#include "acm/driver/service_socket.hpp"
#include "acm/driver/service_watch.hpp"
#include "acm/temporary_directory.hpp"
#include "base/clock.hpp"

namespace wireup::acm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::TemporaryDirectory;

constexpr PKey kTablePKey{0x7FFF};
const Guid kPortGuid(0x1234);

verbs::PortInfo fake_port() {
  verbs::PortInfo port;
  port.device = "no_such_device";
  port.port = 1;
  port.port_guid = kPortGuid;
  port.gid = Gid::make(0xFE80000000000000, kPortGuid);
  port.lid = Lid(7);
  port.pkeys = {kTablePKey};
  port.active = true;
  port.link_layer = verbs::LinkLayer::InfiniBand;
  return port;
}

PathKey key_to(std::uint64_t peer) {
  PathKey key;
  key.sgid = fake_port().gid;
  key.dgid = Gid::make(0xFE80000000000000, Guid(peer));
  key.pkey = kTablePKey;
  return key;
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

void rest() {
  poll(nullptr, 0, 10);
}

/// What a service holds for a port.
class Service {
 public:
  explicit Service(const std::string& directory, const RankServerLimits& limits = {}) {
    auto names = NodeDirectory::open_public(directory, kPortGuid, kTablePKey);
    EXPECT_TRUE(names.has_value()) << names.error().what();
    auto lock = NodeLock::open(names->lock_path(), Audience::Everybody);
    EXPECT_TRUE(lock.has_value()) << lock.error().what();
    lock_.emplace(std::move(*lock));
    const std::uint64_t epoch = lock_->epoch();
    const auto locked = lock_->try_lock(epoch);
    EXPECT_TRUE(locked && *locked);
    PortResolverOptions options;
    options.directory = *names;
    options.epoch = epoch;
    options.device = "no_such_device";
    options.pkey = kTablePKey;
    options.ranks = limits;
    auto started = Resolver::start(options, *lock_, ServiceWatch("", kPortGuid, kTablePKey));
    EXPECT_TRUE(started.has_value()) << started.error().what();
    resolver_ = std::move(*started);
  }

 private:
  std::optional<NodeLock> lock_;
  std::unique_ptr<Resolver> resolver_;
};

class PublicResolverTest : public testing::Test {
 protected:
  [[nodiscard]] std::string public_directory() const { return directory_.path() + "/public"; }
  [[nodiscard]] NodeDirectory names() const {
    return *NodeDirectory::public_names(public_directory(), kPortGuid, kTablePKey);
  }
  [[nodiscard]] NodeClient open_rank() const {
    NodeClientOptions options;
    options.directory = directory_.path() + "/own";
    options.cache_directory = directory_.path();
    options.public_directory = public_directory();
    auto opened = NodeClient::open(options, fake_port());
    EXPECT_TRUE(opened.has_value()) << opened.error().what();
    return std::move(*opened);
  }
  /// The answer to one question; every resolver here says that there is no device.
  [[nodiscard]] static std::optional<Error> ask(NodeClient& rank, Duration limit = seconds(20)) {
    const Instant end = monotonic_now() + limit;
    EXPECT_TRUE(rank.request(key_to(2), end));
    while (true) {
      rank.progress(monotonic_now());
      if (const auto resolution = rank.poll_resolution()) {
        return resolution->path ? std::nullopt : std::optional(resolution->path.error());
      }
      EXPECT_LT(monotonic_now(), end + seconds(10)) << "no answer, and no deadline";
      rest();
    }
  }
  [[nodiscard]] static bool has_no_device(const std::optional<Error>& error) {
    return error.has_value() && error->is(Errc::NoDevice);
  }

  TemporaryDirectory directory_;
};

TEST_F(PublicResolverTest, ItsFilesAreForAllToReadAndItsLockForNobody) {
  const Service service(public_directory());
  EXPECT_EQ(mode_of(public_directory()), 0755U);
  EXPECT_EQ(mode_of(names().lock_path()), 0644U);
  EXPECT_EQ(mode_of(names().lock_path() + ".owner"), 0600U);
  EXPECT_EQ(mode_of(names().socket_path(0)), 0666U);
  // The cache is beside them, and not in a directory where others could take its name first.
  EXPECT_EQ(names().cache_path(0).rfind(public_directory() + "/", 0), 0U);
  const auto cache = CacheWriter::open({names().cache_path(0), 64, {}, false, true});
  ASSERT_TRUE(cache.has_value());
  EXPECT_EQ(mode_of(names().cache_path(0)), 0644U);
}

TEST_F(PublicResolverTest, WhoMayReadTheStateCannotKeepTheServiceOut) {
  { const Service service(public_directory()); }
  const UniqueFd reader(open(names().lock_path().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(reader.is_open());
  struct flock everything {};
  everything.l_type = F_RDLCK;
  everything.l_whence = SEEK_SET;
  ASSERT_EQ(fcntl(reader.value(), F_OFD_SETLK, &everything), 0);
  auto lock = NodeLock::open(names().lock_path(), Audience::Everybody);
  ASSERT_TRUE(lock.has_value());
  const auto locked = lock->try_lock(lock->epoch());
  EXPECT_TRUE(locked && *locked);
}

TEST_F(PublicResolverTest, AViewSeesEpochAndBeat) {
  const std::string path = directory_.path() + "/state";
  EXPECT_TRUE(NodeLockView::open(path).error().is(Errc::NotFound));
  auto lock = NodeLock::open(path, Audience::Everybody);
  ASSERT_TRUE(lock.has_value());
  const auto view = NodeLockView::open(path);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->last_beat(), Instant());
  EXPECT_EQ(view->silence(Instant(seconds(9))), Duration::max());
  lock->beat(Instant(seconds(7)));
  lock->end_epoch(0);
  EXPECT_EQ(view->last_beat(), Instant(seconds(7)));
  EXPECT_EQ(view->silence(Instant(seconds(9))), seconds(2));
  EXPECT_EQ(view->epoch(), 1U);
}

TEST_F(PublicResolverTest, RanksAskTheService) {
  const Service service(public_directory());
  NodeClient one = open_rank();
  NodeClient two = open_rank();
  EXPECT_TRUE(has_no_device(ask(one)));
  EXPECT_TRUE(has_no_device(ask(two)));
  EXPECT_FALSE(one.is_resolver());
  EXPECT_FALSE(two.is_resolver());
}

TEST_F(PublicResolverTest, ItsCacheIsReadByTheRanks) {
  const Service service(public_directory());
  auto cache = CacheWriter::open({names().cache_path(0), 64, {}, false, true});
  ASSERT_TRUE(cache.has_value());
  mad::PathRecord record;
  record.sgid = key_to(2).sgid;
  record.dgid = key_to(2).dgid;
  record.dlid = Lid(99);
  cache->store(key_to(2), record, PathOrigin::SaQuery, monotonic_now());
  const NodeClient rank = open_rank();
  const auto path = rank.lookup(key_to(2));
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->record.dlid, Lid(99));
}

TEST_F(PublicResolverTest, ARanksResolverStepsDownAlthoughTheRankIsBusy) {
  NodeClient rank = open_rank();
  ASSERT_TRUE(rank.is_resolver());
  const Service service(public_directory());
  // The rank itself does nothing: its thread sees the service.
  const Instant end = monotonic_now() + seconds(20);
  while (rank.is_resolver() && monotonic_now() < end) {
    rest();
  }
  EXPECT_FALSE(rank.is_resolver());
  EXPECT_TRUE(has_no_device(ask(rank)));
  EXPECT_FALSE(rank.is_resolver());
}

TEST_F(PublicResolverTest, RanksElectTheirOwnWhileThereIsNoServiceAndGoBack) {
  auto service = std::make_unique<Service>(public_directory());
  NodeClient rank = open_rank();
  EXPECT_TRUE(has_no_device(ask(rank)));
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(rank.is_resolver());
    service.reset();
    EXPECT_TRUE(has_no_device(ask(rank)));
    EXPECT_TRUE(rank.is_resolver());
    service = std::make_unique<Service>(public_directory());
    const Instant end = monotonic_now() + seconds(20);
    while (rank.is_resolver() && monotonic_now() < end) {
      rank.progress(monotonic_now());
      rest();
    }
    EXPECT_TRUE(has_no_device(ask(rank)));
  }
}

TEST_F(PublicResolverTest, AServiceThatIsStoppedIsLeft) {
  // It has beaten, and its socket is there, but nobody reads from it.
  auto made = NodeDirectory::open_public(public_directory(), kPortGuid, kTablePKey);
  ASSERT_TRUE(made.has_value());
  auto lock = NodeLock::open(made->lock_path(), Audience::Everybody);
  ASSERT_TRUE(lock.has_value());
  const auto listener = listen_at(made->socket_path(0), Audience::Everybody);
  ASSERT_TRUE(listener.has_value());
  lock->beat(monotonic_now());
  NodeClient rank = open_rank();
  EXPECT_FALSE(rank.is_resolver());
  EXPECT_TRUE(has_no_device(ask(rank)));
  EXPECT_TRUE(rank.is_resolver());
}

TEST_F(PublicResolverTest, WhatOthersMayWriteIsNotBelieved) {
  const Service service(public_directory());
  ASSERT_EQ(chmod(names().lock_path().c_str(), 0664), 0);
  NodeClient rank = open_rank();
  EXPECT_TRUE(rank.is_resolver());
  EXPECT_TRUE(has_no_device(ask(rank)));
}

TEST_F(PublicResolverTest, OneProcessTooManyIsToldSoAtItsDeadline) {
  RankServerLimits limits;
  limits.max_ranks_each_user = 1;
  const Service service(public_directory(), limits);
  NodeClient one = open_rank();
  EXPECT_TRUE(has_no_device(ask(one)));
  NodeClient two = open_rank();
  const auto refused = ask(two, milliseconds(700));
  ASSERT_TRUE(refused.has_value());
  EXPECT_NE(refused->what().find("more processes"), std::string_view::npos) << refused->what();
  EXPECT_FALSE(two.is_resolver());
  EXPECT_TRUE(has_no_device(ask(one)));
}

TEST(ServiceWatch, CountsOnlyBeatsAfterItWasLeft) {
  const TemporaryDirectory directory;
  const auto names = NodeDirectory::open_public(directory.path() + "/p", kPortGuid, kTablePKey);
  ASSERT_TRUE(names.has_value());
  ServiceWatch watch(directory.path() + "/p", kPortGuid, kTablePKey);
  const Instant start{seconds(1000)};
  EXPECT_FALSE(watch.is_there(start));
  auto lock = NodeLock::open(names->lock_path(), Audience::Everybody);
  ASSERT_TRUE(lock.has_value());
  EXPECT_FALSE(watch.is_there(start)) << "never beaten";
  lock->beat(start);
  EXPECT_TRUE(watch.is_there(start + seconds(1)));
  EXPECT_FALSE(watch.is_there(start + seconds(3))) << "silent";
  watch.leave(start + milliseconds(500));
  EXPECT_FALSE(watch.is_there(start + seconds(1)));
  lock->beat(start + milliseconds(600));
  EXPECT_TRUE(watch.is_there(start + seconds(1)));
  EXPECT_FALSE(ServiceWatch("", kPortGuid, kTablePKey).is_there(start));
}

TEST(UserShares, EachUserHasABoundOfItsOwn) {
  UserShares shares(2);
  EXPECT_TRUE(shares.take(1000));
  EXPECT_TRUE(shares.take(1000));
  EXPECT_FALSE(shares.take(1000));
  EXPECT_TRUE(shares.is_full(1000));
  EXPECT_TRUE(shares.take(1001));
  shares.give_back(1000);
  EXPECT_EQ(shares.held(1000), 1U);
  EXPECT_TRUE(shares.take(1000));
  shares.give_back(7);
  EXPECT_EQ(shares.held(7), 0U) << "nothing was taken";
}

TEST(UserRate, ABurstAndThenSoManyASecond) {
  UserRate rate(3, 2);
  const Instant start{seconds(1000)};
  const auto allowed = [&](uid_t user, Instant now) {
    int count = 0;
    while (rate.allow(user, now)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(allowed(1000, start), 3);
  EXPECT_EQ(allowed(1000, start + milliseconds(400)), 0);
  EXPECT_EQ(allowed(1000, start + milliseconds(1000)), 2);
  EXPECT_EQ(allowed(1001, start + milliseconds(1000)), 3);
  EXPECT_EQ(allowed(1000, start + seconds(100)), 3) << "no more than the burst is saved up";
}

class RankLimitsTest : public testing::Test {
 protected:
  void start(const RankServerLimits& limits) {
    auto listener = listen_at(path_);
    ASSERT_TRUE(listener.has_value());
    auto server = RankServer::open(std::move(*listener), limits);
    ASSERT_TRUE(server.has_value());
    server_.emplace(std::move(*server));
  }
  [[nodiscard]] UniqueFd connect() {
    auto fd = connect_to(path_);
    EXPECT_TRUE(fd.has_value());
    server_->progress();
    return std::move(*fd);
  }
  static void send(const UniqueFd& rank, ServiceOp op, std::uint64_t peer) {
    ASSERT_EQ(send_packet(rank.value(), encode({op, {key_to(peer), {}}, Instant(seconds(1))})),
              SendOutcome::Sent);
  }
  [[nodiscard]] static bool is_closed(const UniqueFd& rank) {
    ServiceReplyBytes buffer{};
    return receive_packet(rank.value(), buffer).outcome == ReceiveOutcome::Closed;
  }
  [[nodiscard]] std::vector<RankServer::Request> poll_all() {
    server_->progress();
    std::vector<RankServer::Request> requests;
    while (const auto request = server_->poll_request()) {
      requests.push_back(*request);
    }
    return requests;
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/sock";
  std::optional<RankServer> server_;
};

TEST_F(RankLimitsTest, OneTooManyIsClosedAndTheNextTakesItsPlace) {
  RankServerLimits limits;
  limits.max_ranks_each_user = 2;
  start(limits);
  UniqueFd one = connect();
  const UniqueFd two = connect();
  const UniqueFd three = connect();
  EXPECT_TRUE(is_closed(three));
  EXPECT_FALSE(is_closed(two));
  one.reset();
  server_->progress();
  const UniqueFd four = connect();
  EXPECT_FALSE(is_closed(four));
  EXPECT_EQ(server_->ranks(), 2U);
}

TEST_F(RankLimitsTest, BeyondTheWholeTheyWait) {
  RankServerLimits limits;
  limits.max_ranks = 1;
  start(limits);
  UniqueFd one = connect();
  const UniqueFd two = connect();
  EXPECT_FALSE(is_closed(two));
  EXPECT_EQ(server_->ranks(), 1U);
  one.reset();
  server_->progress();
  server_->progress();
  EXPECT_EQ(server_->ranks(), 1U);
  send(two, ServiceOp::Resolve, 2);
  EXPECT_EQ(poll_all().size(), 1U);
}

TEST_F(RankLimitsTest, QuestionsBeyondTheBoundWaitInTheSocket) {
  RankServerLimits limits;
  limits.max_pending_each_user = 2;
  start(limits);
  const UniqueFd one = connect();
  const UniqueFd two = connect();
  for (std::uint64_t peer = 1; peer <= 4; ++peer) {
    send(one, ServiceOp::Resolve, peer);
  }
  send(two, ServiceOp::Resolve, 9);
  std::set<RankQuestion> answered;
  for (int turn = 0; turn < 20; ++turn) {
    const auto requests = poll_all();
    ASSERT_LE(server_->pending(geteuid()), 2U);
    for (const RankServer::Request& request : requests) {
      EXPECT_EQ(request.user, geteuid());
      EXPECT_TRUE(answered.insert(request.request.question).second) << "asked twice";
      server_->reply(request.rank, {request.request.question, fail(Errc::NoDevice)});
    }
  }
  EXPECT_EQ(answered.size(), 5U);
  EXPECT_EQ(server_->pending(geteuid()), 0U);
}

TEST_F(RankLimitsTest, AQuestionThatIsAskedAgainIsOne) {
  RankServerLimits limits;
  limits.max_pending_each_user = 3;
  start(limits);
  const UniqueFd one = connect();
  send(one, ServiceOp::Resolve, 2);
  send(one, ServiceOp::Resolve, 2);
  EXPECT_EQ(poll_all().size(), 2U);
  EXPECT_EQ(server_->pending(geteuid()), 1U);
}

TEST_F(RankLimitsTest, WhoGoesLeavesNothingPending) {
  RankServerLimits limits;
  limits.max_pending_each_user = 2;
  start(limits);
  UniqueFd one = connect();
  for (std::uint64_t peer = 1; peer <= 10; ++peer) {
    send(one, ServiceOp::Resolve, peer);
  }
  EXPECT_EQ(poll_all().size(), 2U);
  one.reset();
  server_->progress();
  EXPECT_EQ(server_->pending(geteuid()), 0U);
  EXPECT_EQ(server_->ranks(), 0U);
  // Failures that it reported before it went are worth knowing; its questions are not.
  UniqueFd two = connect();
  send(two, ServiceOp::PathFailed, 5);
  send(two, ServiceOp::Resolve, 5);
  server_->progress();
  two.reset();
  server_->progress();
  const auto left = poll_all();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left.front().request.op, ServiceOp::PathFailed);
}

}  // namespace
}  // namespace wireup::acm
