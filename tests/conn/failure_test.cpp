// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <string>

#include "conn/conn_host.hpp"

namespace wireup::conn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Failed only_failure(const Rank& rank) {
  const auto failed = rank.all<Failed>();
  EXPECT_EQ(failed.size(), 1U);
  EXPECT_EQ(rank.events.size(), failed.size());
  return failed.empty() ? Failed{} : failed[0];
}

TEST(Failure, APeerWithoutCardFailsAtCardInTheDeadline) {
  World world(2);
  world[0].answers_cards = false;
  const Instant start = world.network.now();
  ASSERT_TRUE(world[0].connect(1, seconds(3)));
  ASSERT_TRUE(world.network.run());
  const Failed failed = only_failure(world[0]);
  EXPECT_EQ(failed.step, Step::Card);
  EXPECT_TRUE(failed.error.is(Errc::CardMissing));
  EXPECT_EQ(world.network.now() - start, seconds(3));
  expect_settled(world[0]);
}

TEST(Failure, TheExchangesReasonIsPassedOn) {
  World world(2);
  world[0].answer_card = [](std::uint32_t) -> Result<PeerCard> {
    return fail(Error::make(Errc::NoPmix, "the server is gone"));
  };
  ASSERT_TRUE(world[0].connect(1));
  const Failed failed = only_failure(world[0]);
  EXPECT_EQ(failed.step, Step::Card);
  EXPECT_TRUE(failed.error.is(Errc::NoPmix));
  EXPECT_EQ(failed.error.what(), "the server is gone");
}

TEST(Failure, AnUnresolvedPathFailsAtPath) {
  World world(2);
  world[0].answer_path = [](std::uint32_t) -> Result<Path> {
    return fail(Error::make(Errc::PathUnresolved, "nobody answers for the GID"));
  };
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  const Failed failed = only_failure(world[0]);
  EXPECT_EQ(failed.step, Step::Path);
  EXPECT_TRUE(failed.error.is(Errc::PathUnresolved));
  expect_settled(world[0]);
}

TEST(Failure, APathThatIsNeverAnsweredFailsAtPathInTheDeadline) {
  World world(2);
  world[0].answers_paths = false;
  const Instant start = world.network.now();
  ASSERT_TRUE(world[0].connect(1, seconds(2)));
  ASSERT_TRUE(world.network.run());
  const Failed failed = only_failure(world[0]);
  EXPECT_EQ(failed.step, Step::Path);
  EXPECT_TRUE(failed.error.is(Errc::Timeout));
  EXPECT_EQ(world.network.now() - start, seconds(2));
  expect_settled(world[0]);
}

TEST(Failure, RecordsThatNoQueuePairCanUseAreRefused) {
  const auto spoilers = std::vector<std::function<void(mad::PathRecord&)>>{
      [](mad::PathRecord& r) { r.dlid = Lid(0); }, [](mad::PathRecord& r) { r.slid = Lid(99); },
      [](mad::PathRecord& r) { r.sgid = Gid{}; },  [](mad::PathRecord& r) { r.mtu = 0; },
      [](mad::PathRecord& r) { r.mtu = 6; },
  };
  for (const auto& spoil : spoilers) {
    World world(2);
    world[0].answer_path = [&](std::uint32_t peer) {
      Path path{Place::path(0, peer), 2};
      spoil(path.record);
      return Result<Path>(path);
    };
    ASSERT_TRUE(world[0].connect(1));
    ASSERT_TRUE(world.network.run());
    const Failed failed = only_failure(world[0]);
    EXPECT_EQ(failed.step, Step::Path);
    EXPECT_TRUE(failed.error.is(Errc::PathUnresolved));
    EXPECT_EQ(world[0].sent_in_all(), 0U);
  }
}

TEST(Failure, AQueuePairThatCannotBeMadeFailsAtQp) {
  World world(2);
  world[0].answer_create = [] {
    return Result<>(fail(Error::make(Errc::NoResources, "no more QPs")));
  };
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  const Failed failed = only_failure(world[0]);
  EXPECT_EQ(failed.step, Step::Qp);
  EXPECT_TRUE(failed.error.is(Errc::NoResources));
  EXPECT_TRUE(world[0].qps.empty());
}

TEST(Failure, AQueuePairThatCannotBeMovedTellsThePeer) {
  World world(2);
  world[0].answer_connect = [] {
    return Result<>(fail(Error::make(Errc::InvalidArgument, "INIT to RTR")));
  };
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  const Failed failed = only_failure(world[0]);
  EXPECT_EQ(failed.step, Step::Qp);
  EXPECT_EQ(world[0].sent[mad::CmKind::Rej], 1U);
  EXPECT_TRUE(world[1].events.empty());
  expect_settled(world[0]);
  expect_settled(world[1]);
}

TEST(Failure, ThePeersQueuePairTroubleComesBackAsARefusal) {
  World world(2);
  world[1].answer_create = [] {
    return Result<>(fail(Error::make(Errc::NoResources, "no more QPs")));
  };
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  const Failed failed = only_failure(world[0]);
  EXPECT_EQ(failed.step, Step::Request);
  EXPECT_TRUE(failed.error.is(Errc::Rejected));
  EXPECT_NE(std::string(failed.error.what()).find("queue pair"), std::string::npos);
  expect_settled(world[0]);
  expect_settled(world[1]);
}

TEST(Failure, ThePeersMissingPathComesBackAsARefusal) {
  World world(2);
  world[1].answer_path = [](std::uint32_t) -> Result<Path> {
    return fail(Error::make(Errc::PathUnresolved, "none"));
  };
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  const Failed failed = only_failure(world[0]);
  EXPECT_EQ(failed.step, Step::Request);
  EXPECT_TRUE(failed.error.is(Errc::PathUnresolved));
}

TEST(Failure, ASilentPeerFailsAtRequestInTheDeadlineAndIsNamed) {
  World world(2);
  world.network.replace(1, nullptr);
  const Instant start = world.network.now();
  ASSERT_TRUE(world[0].connect(1, seconds(4)));
  ASSERT_TRUE(world.network.run());
  const Failed failed = only_failure(world[0]);
  EXPECT_EQ(failed.step, Step::Request);
  EXPECT_TRUE(failed.error.is(Errc::Timeout));
  // The last thing to happen is that the REJ(timeout) vanishes on its way.
  EXPECT_LE(world.network.now() - start, seconds(4) + milliseconds(1));
  EXPECT_GE(failed.attempts, 3U);
  EXPECT_EQ(failed.attempts, world[0].sent[mad::CmKind::Req]);
  const std::string text(failed.error.what());
  for (const char* part : {"rank 1", "LID 11", "sim0 port 1", "LID 10", "0xffff"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  expect_settled(world[0]);
}

TEST(Failure, AnExtendedDeadlineIsHonoured) {
  World world(2);
  world.network.replace(1, nullptr);
  ASSERT_TRUE(world[0].connect(1, seconds(2)));
  world.network.run_for(seconds(1));
  ASSERT_TRUE(world[0].connect(1, seconds(9)));
  world.network.run_for(seconds(3));
  EXPECT_TRUE(world[0].events.empty());
  world.network.replace(1, world.ranks[1].get());
  ASSERT_TRUE(world.network.run());
  expect_connected(world[0], world[1]);
  EXPECT_TRUE(world[0].all<Failed>().empty());
}

TEST(Failure, ThePassiveSideForgetsAnAttemptWhoseRtuNeverComes) {
  World world(2);
  world.network.set_filter(
      [](auto, auto, const Datagram& d) { return d.kind == mad::CmKind::Rtu; });
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  EXPECT_TRUE(world[1].events.empty());
  EXPECT_EQ(world[1].engine().counters().failed, 1U);
  expect_settled(world[1]);
}

TEST(Failure, CommandsAreChecked) {
  World world(2);
  Rank& rank = world[0];
  const Instant now = world.network.now();
  EXPECT_TRUE(
      rank.engine().connect({kJob, 2}, now + seconds(1), now).error().is(Errc::InvalidArgument));
  EXPECT_TRUE(
      rank.engine().connect({kJob + 1, 1}, now + seconds(1), now).error().is(Errc::Unsupported));
  EXPECT_TRUE(rank.engine().connect({kJob, 1}, now, now).error().is(Errc::InvalidArgument));
  EXPECT_TRUE(rank.close(1).error().is(Errc::InvalidState));
  EXPECT_TRUE(rank.events.empty());
}

TEST(Failure, CloseGivesAnAttemptUp) {
  World world(2);
  world.network.replace(1, nullptr);
  ASSERT_TRUE(world[0].connect(1));
  world.network.run_for(milliseconds(20));
  ASSERT_TRUE(world[0].close(1));
  ASSERT_TRUE(world.network.run());
  ASSERT_EQ(world[0].events.size(), 1U);
  EXPECT_EQ(world[0].all<Disconnected>().at(0).id, ConnectionId{});
  expect_settled(world[0]);
}

}  // namespace
}  // namespace wireup::conn
