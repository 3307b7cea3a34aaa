// SPDX-License-Identifier: BSD-3-Clause
// Paths without a connection: the state machine alone.
#include "conn/engine/resolutions.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace wireup::conn {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t kJob = 77;
constexpr Instant kStart{seconds(1000)};
constexpr Instant kDeadline{seconds(1010)};
constexpr PKey kPKey{0xFFFF};
constexpr PathVersion kVersion{0x100000001, 5};
const Gid kOwnGid = Gid::make(0xFE80000000000000, Guid(1));

Gid gid_of(std::uint32_t rank) {
  return Gid::make(0xFE80000000000000, Guid(1 + rank));
}

Config config() {
  Config result;
  result.self = {kJob, 0};
  result.job_size = 8;
  result.port_name = "softhca0 port 1";
  result.gid = kOwnGid;
  result.lid = Lid(10);
  result.lmc = 1;
  result.mtu = 4;
  return result;
}

KnownPath path_to(const Gid& dgid, std::uint16_t dlid) {
  KnownPath path;
  path.record.sgid = kOwnGid;
  path.record.dgid = dgid;
  path.record.slid = Lid(11);
  path.record.dlid = Lid(dlid);
  path.record.pkey = kPKey;
  path.record.mtu = 5;
  path.origin = 2;
  path.generation = 1;
  path.version = kVersion;
  path.learned = kStart;
  return path;
}

class ResolutionsTest : public testing::Test {
 protected:
  static PathWish wish() { return {kPKey, std::nullopt, ServiceId{}}; }
  static PeerId peer(std::uint32_t rank) { return {kJob, rank}; }

  /// The next command, which must be of this kind.
  template <typename T>
  T command() {
    const auto next = paths.poll_command();
    EXPECT_TRUE(next.has_value());
    const T* wanted = next.has_value() ? std::get_if<T>(&*next) : nullptr;
    EXPECT_NE(wanted, nullptr);
    return wanted != nullptr ? *wanted : T{};
  }
  template <typename T>
  T event() {
    const auto next = paths.poll_event();
    EXPECT_TRUE(next.has_value());
    const T* wanted = next.has_value() ? std::get_if<T>(&*next) : nullptr;
    EXPECT_NE(wanted, nullptr);
    return wanted != nullptr ? *wanted : T{};
  }
  void expect_quiet() {
    EXPECT_FALSE(paths.poll_command().has_value());
    EXPECT_FALSE(paths.poll_event().has_value());
  }
  /// Asks, without any answer within the call.
  PathId pending(const PathTarget& target, const PathWish& wanted = wish()) {
    const auto id = paths.resolve(target, wanted, kDeadline, kStart);
    EXPECT_TRUE(id);
    EXPECT_FALSE(paths.take_answer(*id).has_value());
    return *id;
  }
  /// A rank's path, resolved, with all commands and events taken.
  PathId resolved(std::uint32_t rank, const PathWish& wanted = wish()) {
    const PathId id = pending(peer(rank), wanted);
    paths.handle_card(peer(rank), gid_of(rank));
    paths.handle_path(id, path_to(gid_of(rank), 20));
    while (paths.poll_command().has_value()) {
    }
    EXPECT_EQ(event<Resolved>().id, id);
    return id;
  }

  Resolutions paths{config()};
};

/// FindPath has no default: an address always is one.
template <>
FindPath ResolutionsTest::command<FindPath>() {
  const auto next = paths.poll_command();
  EXPECT_TRUE(next.has_value() && std::holds_alternative<FindPath>(*next));
  return next.has_value() && std::holds_alternative<FindPath>(*next)
             ? std::get<FindPath>(*next)
             : FindPath{PathId{}, mad::AcmAddress::lid(Lid(1)), {}, {}};
}

TEST_F(ResolutionsTest, ARankGoesByItsCardToThePath) {
  const PathId id = pending(peer(3));
  const auto card = command<RequestCard>();
  EXPECT_EQ(card.peer, peer(3));
  EXPECT_EQ(card.deadline, kDeadline);
  expect_quiet();
  paths.handle_card(peer(3), gid_of(3));
  const auto find = command<FindPath>();
  EXPECT_EQ(find.id, id);
  EXPECT_EQ(find.to, mad::AcmAddress::gid(gid_of(3)));
  EXPECT_EQ(find.wish, wish());
  EXPECT_EQ(find.deadline, kDeadline);
  paths.handle_path(id, path_to(gid_of(3), 20));
  const auto done = event<Resolved>();
  EXPECT_EQ(done.id, id);
  EXPECT_EQ(done.peer, peer(3));
  EXPECT_EQ(paths.find(id)->path->record.dlid, Lid(20));
  expect_quiet();
}

TEST_F(ResolutionsTest, WhatIsKnownIsAnsweredWithinTheCall) {
  const PathId first = resolved(3);
  const PathWish other{kPKey, Sl(2), ServiceId(9)};
  const auto id = paths.resolve(peer(3), other, kDeadline, kStart);
  ASSERT_TRUE(id);
  EXPECT_NE(*id, first);
  EXPECT_EQ(command<FindPath>().wish, other) << "the card is known";
  paths.handle_path(*id, path_to(gid_of(3), 21));
  const auto answer = paths.take_answer(*id);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->has_value());
  expect_quiet();
  // Asked again, both are there.
  EXPECT_EQ(paths.resolve(peer(3), other, kDeadline, kStart), *id);
  EXPECT_TRUE(paths.take_answer(*id).has_value());
  EXPECT_EQ(paths.resolve(peer(3), wish(), kDeadline, kStart), first);
  EXPECT_TRUE(paths.take_answer(first).has_value());
  expect_quiet();
}

TEST_F(ResolutionsTest, AFailureWithinTheCallIsItsAnswer) {
  const auto id = paths.resolve(mad::AcmAddress::gid(gid_of(5)), wish(), kDeadline, kStart);
  ASSERT_TRUE(id);
  command<FindPath>();
  paths.handle_path(*id, fail(Errc::NoSubnetManager));
  const auto answer = paths.take_answer(*id);
  ASSERT_TRUE(answer.has_value() && !answer->has_value());
  EXPECT_TRUE(answer->error().is(Errc::NoSubnetManager));
  EXPECT_EQ(paths.find(*id), nullptr);
  expect_quiet();
}

TEST_F(ResolutionsTest, OneselfNeedsNoCard) {
  pending(peer(0));
  EXPECT_EQ(command<FindPath>().to, mad::AcmAddress::gid(kOwnGid));
  expect_quiet();
}

TEST_F(ResolutionsTest, FailuresNameTheirStep) {
  const PathId id = pending(peer(3));
  const PathId strict = pending(peer(3), {kPKey, Sl(1), ServiceId{}});
  paths.handle_card(peer(3), fail(Errc::CardMissing));
  for (const PathId each : {id, strict}) {
    const auto failed = event<Unresolved>();
    EXPECT_EQ(failed.id, each);
    EXPECT_EQ(failed.peer, peer(3));
    EXPECT_EQ(failed.step, Step::Card);
    EXPECT_TRUE(failed.error.is(Errc::CardMissing));
    EXPECT_EQ(paths.find(each), nullptr);
  }
  const PathId later = pending(peer(3));
  EXPECT_NE(later, id) << "ids are not used twice";
  paths.handle_card(peer(3), gid_of(3));
  paths.handle_path(later, fail(Errc::PathUnresolved));
  EXPECT_EQ(event<Unresolved>().step, Step::Path);
}

TEST_F(ResolutionsTest, ARecordThatIsNotOfOurPortIsNoPath) {
  KnownPath foreign = path_to(gid_of(3), 20);
  foreign.record.slid = Lid(12);  // the port has LIDs 10 and 11
  const PathId id = pending(peer(3));
  paths.handle_card(peer(3), gid_of(3));
  paths.handle_path(id, foreign);
  EXPECT_TRUE(event<Unresolved>().error.is(Errc::PathUnresolved));
  // The port has moved there.
  paths.set_port(Lid(12), 0);
  const PathId again = pending(peer(3));
  paths.handle_path(again, foreign);
  EXPECT_EQ(event<Resolved>().id, again);
}

TEST_F(ResolutionsTest, WrongArgumentsAreRefused) {
  EXPECT_TRUE(paths.resolve(peer(8), wish(), kDeadline, kStart).error().is(Errc::InvalidArgument));
  EXPECT_TRUE(
      paths.resolve(PeerId{kJob + 1, 3}, wish(), kDeadline, kStart).error().is(Errc::Unsupported));
  EXPECT_TRUE(paths.resolve(peer(3), wish(), kStart, kStart).error().is(Errc::InvalidArgument));
  EXPECT_TRUE(paths.resolve(mad::AcmAddress::lid(Lid(3)), wish(), kStart, kStart)
                  .error()
                  .is(Errc::InvalidArgument));
  EXPECT_TRUE(paths.fail_path(PathId(4)).error().is(Errc::NotFound));
  EXPECT_TRUE(paths.forget(PathId(4)).error().is(Errc::NotFound));
  EXPECT_TRUE(paths.is_empty());
  expect_quiet();
}

TEST_F(ResolutionsTest, AskedAgainWhilePendingTheDeadlineMoves) {
  const PathId id = pending(peer(3));
  command<RequestCard>();
  EXPECT_EQ(paths.resolve(peer(3), wish(), kDeadline - seconds(1), kStart), id);
  EXPECT_FALSE(paths.take_answer(id).has_value());
  expect_quiet();
  EXPECT_EQ(paths.resolve(peer(3), wish(), kDeadline + seconds(5), kStart), id);
  EXPECT_EQ(command<RequestCard>().deadline, kDeadline + seconds(5));
  paths.handle_card(peer(3), gid_of(3));
  EXPECT_EQ(command<FindPath>().deadline, kDeadline + seconds(5));
  paths.handle_card(peer(3), gid_of(3));
  expect_quiet();
}

TEST_F(ResolutionsTest, AnotherBasisVoidsAllOfThePartition) {
  const PathId one = resolved(1);
  const PathId two = resolved(2);
  const PathId elsewhere = resolved(1, {PKey(0x8001), std::nullopt, ServiceId{}});
  paths.handle_version(kPKey, kVersion);
  paths.handle_version(kPKey, {0, 0});
  expect_quiet();
  paths.handle_version(kPKey, {kVersion.basis + 1, kVersion.changes});
  for (const PathId id : {one, two}) {
    const auto changed = event<PathChanged>();
    EXPECT_EQ(changed.id, id);
    EXPECT_EQ(changed.reason, PathEnd::FabricChanged);
    EXPECT_EQ(paths.find(id)->state, Resolution::State::Void);
  }
  paths.handle_version(kPKey, {kVersion.basis + 2, kVersion.changes});
  expect_quiet();
  EXPECT_EQ(paths.find(elsewhere)->state, Resolution::State::Resolved);
  // Found again, under the same id.
  EXPECT_EQ(paths.resolve(peer(2), wish(), kDeadline, kStart), two);
  EXPECT_FALSE(paths.take_answer(two).has_value());
  EXPECT_EQ(command<FindPath>().id, two);
  KnownPath renewed = path_to(gid_of(2), 21);
  renewed.version.basis = kVersion.basis + 2;
  paths.handle_path(two, renewed);
  EXPECT_EQ(event<Resolved>().id, two);
  paths.handle_version(kPKey, {kVersion.basis + 2, kVersion.changes});
  expect_quiet();
}

TEST_F(ResolutionsTest, AChangeIsLookedAtPathByPath) {
  const PathId same = resolved(1);
  const PathId other = resolved(2);
  const PathId gone = resolved(3);
  paths.handle_version(kPKey, {kVersion.basis, kVersion.changes + 1});
  std::vector<PathId> looked;
  looked.reserve(3);
  for (int i = 0; i < 3; ++i) {
    looked.push_back(command<CheckPath>().id);
  }
  EXPECT_EQ(looked, (std::vector{same, other, gone}));
  paths.handle_check(same, path_to(gid_of(1), 20).record);
  paths.handle_check(other, path_to(gid_of(2), 99).record);
  paths.handle_check(gone, std::nullopt);
  for (const PathId id : {other, gone}) {
    const auto changed = event<PathChanged>();
    EXPECT_EQ(changed.id, id);
    EXPECT_EQ(changed.reason, PathEnd::Replaced);
  }
  paths.handle_version(kPKey, {kVersion.basis, kVersion.changes + 1});
  expect_quiet();
}

TEST_F(ResolutionsTest, APathFromBeforeTheCacheTakesItsBasis) {
  const PathId id = pending(peer(3));
  paths.handle_card(peer(3), gid_of(3));
  KnownPath early = path_to(gid_of(3), 20);
  early.version = {};
  paths.handle_path(id, early);
  EXPECT_EQ(event<Resolved>().id, id);
  while (paths.poll_command().has_value()) {
  }
  paths.handle_version(kPKey, {kVersion.basis, 0});
  expect_quiet();
  paths.handle_version(kPKey, {kVersion.basis + 1, 0});
  EXPECT_EQ(event<PathChanged>().id, id);
}

TEST_F(ResolutionsTest, AFailedPathIsVoid) {
  const PathId id = pending(peer(3));
  EXPECT_TRUE(paths.fail_path(id).error().is(Errc::InvalidState));
  paths.handle_card(peer(3), gid_of(3));
  paths.handle_path(id, path_to(gid_of(3), 20));
  event<Resolved>();
  EXPECT_TRUE(paths.fail_path(id));
  EXPECT_EQ(event<PathChanged>().reason, PathEnd::Failed);
  EXPECT_TRUE(paths.fail_path(id));
  EXPECT_FALSE(paths.poll_event().has_value()) << "told once";
}

TEST_F(ResolutionsTest, WhatIsForgottenIsSilent) {
  const PathId id = pending(peer(3));
  paths.handle_card(peer(3), gid_of(3));
  paths.handle_path(id, path_to(gid_of(3), 20));
  ASSERT_TRUE(paths.forget(id));
  EXPECT_FALSE(paths.poll_event().has_value()) << "the event that was there as well";
  EXPECT_TRUE(paths.is_empty());
  const PathId next = pending(peer(3));
  EXPECT_NE(next, id);
  paths.handle_path(id, path_to(gid_of(3), 20));
  paths.handle_check(id, std::nullopt);
  EXPECT_FALSE(paths.poll_event().has_value()) << "late answers";
  EXPECT_EQ(paths.find(next)->state, Resolution::State::Pending);
}

TEST_F(ResolutionsTest, IsAValue) {
  resolved(1);
  Resolutions copy = paths;
  EXPECT_EQ(copy, paths);
  ASSERT_TRUE(copy.resolve(peer(2), wish(), kDeadline, kStart));
  EXPECT_NE(copy, paths);
}

}  // namespace
}  // namespace wireup::conn
