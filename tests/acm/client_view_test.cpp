// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "acm/client/cache_flush.hpp"
#include "acm/client/cache_view.hpp"
#include "acm/client/node_view.hpp"
#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "acm/temporary_directory.hpp"
#include "base/clock.hpp"

// What a program sees of a node's caches and locks that takes no part in them.
namespace wireup::acm {
namespace {

using std::chrono::seconds;
using test::TemporaryDirectory;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Guid kPort{0x5B00000000000101};
const PKey kPKey{0x8001};

TEST(NodeNames, ACachesNameReadsAsItIsWritten) {
  const TemporaryDirectory place;
  const auto names = NodeDirectory::open(place.path() + "/run", place.path(), kPort, kPKey);
  ASSERT_TRUE(names);
  const std::string cache = names->cache_path(12).substr(place.path().size() + 1);
  EXPECT_EQ(parse_cache_name(cache), (CacheName{geteuid(), kPort, 0x0001, 12}));
  const std::string lock = names->lock_path().substr(place.path().size() + 5);
  EXPECT_EQ(parse_lock_name(lock), (LockName{kPort, 0x0001}));
  const auto everybodys = NodeDirectory::public_names(place.path(), kPort, kPKey);
  ASSERT_TRUE(everybodys);
  const std::string shared = everybodys->cache_path(7).substr(place.path().size() + 1);
  EXPECT_EQ(parse_cache_name(shared), (CacheName{std::nullopt, kPort, 0x0001, 7}));
}

TEST(NodeNames, OtherNamesAreNone) {
  const std::string good = "wireup-0-acm1-5b00000000000101-0001.3";
  ASSERT_TRUE(parse_cache_name(good));
  for (const std::string& wrong : {std::string(), std::string("wireup-"), good + "x", good + ".new",
                                   "x" + good, std::string("wireup--acm1-5b00000000000101-0001.3"),
                                   std::string("wireup-4294967296-acm1-5b00000000000101-0001.3"),
                                   std::string("wireup-0-acm1-5b0000000000010-0001.3"),
                                   std::string("wireup-0-acm1-5b00000000000101-001.3"),
                                   std::string("wireup-0-acm1-5b00000000000101-0001."),
                                   std::string("wireup-0-acm1-5b0000000000010g-0001.3")}) {
    EXPECT_FALSE(parse_cache_name(wrong)) << wrong;
  }
  EXPECT_TRUE(parse_lock_name("acm1-5b00000000000101-7fff.lock"));
  for (const char* wrong : {"acm1-5b00000000000101-7fff", "acm1-5b00000000000101-7fff.sock",
                            "acm1-5b00000000000101-7fff.lock~", "acm1-.lock", ""}) {
    EXPECT_FALSE(parse_lock_name(wrong)) << wrong;
  }
}

class ClientView : public testing::Test {
 protected:
  [[nodiscard]] NodeDirectory names() const {
    return *NodeDirectory::open(run(), place_.path(), kPort, kPKey);
  }
  [[nodiscard]] NodeDirectory public_names() const {
    return *NodeDirectory::open_public(places().public_directory, kPort, kPKey);
  }
  [[nodiscard]] std::string run() const { return place_.path() + "/run"; }
  [[nodiscard]] NodePlaces places() const {
    NodePlaces places;
    places.directory = run();
    places.cache_directory = place_.path();
    places.public_directory = place_.path() + "/everybody";
    return places;
  }

  /// A cache of an epoch with paths to `peers` peers, stored at `at`.
  void make_cache(std::uint64_t epoch, std::size_t peers, Instant at) {
    auto writer = CacheWriter::open({names().cache_path(epoch), 64, CacheBasis{}, true});
    ASSERT_TRUE(writer);
    for (std::size_t i = 0; i < peers; ++i) {
      const PathKey key = key_to(i);
      mad::PathRecord record;
      record.sgid = key.sgid;
      record.dgid = key.dgid;
      record.dlid = Lid(static_cast<std::uint16_t>(i + 10));
      record.pkey = kPKey;
      writer->store(key, record, PathOrigin::SaQuery, at);
    }
  }
  static PathKey key_to(std::size_t peer) {
    PathKey key;
    key.sgid = Gid::make(0xFE80000000000000, kPort);
    key.dgid = Gid::make(0xFE80000000000000, Guid(0x1000 + peer));
    key.pkey = kPKey;
    return key;
  }

  TemporaryDirectory place_;
};

TEST_F(ClientView, TheCacheOfTheLastEpochIsFound) {
  const Instant now = monotonic_now();
  make_cache(2, 1, now);
  make_cache(11, 2, now);
  std::ofstream(place_.path() + "/wireup-no-cache") << "x";
  const auto caches = find_caches(places());
  ASSERT_THAT(caches, SizeIs(1));
  EXPECT_EQ(caches[0], (CacheFile{names().cache_path(11), geteuid(), false, kPort, 0x0001, 11}));
  NodePlaces nowhere = places();
  nowhere.cache_directory += "/none";
  EXPECT_THAT(find_caches(nowhere), IsEmpty());
}

TEST_F(ClientView, TheCacheOfAServiceForEverybodyIsSeenAndEmptiedToo) {
  const Instant now = monotonic_now();
  const NodeDirectory names = public_names();
  {
    auto writer = CacheWriter::open({names.cache_path(3), 64, CacheBasis{}, true, true});
    ASSERT_TRUE(writer);
    const PathKey key = key_to(1);
    mad::PathRecord record;
    record.sgid = key.sgid;
    record.dgid = key.dgid;
    record.dlid = Lid(7);
    writer->store(key, record, PathOrigin::SaQuery, now);
  }
  auto lock = NodeLock::open(names.lock_path(), Audience::Everybody);
  ASSERT_TRUE(lock);
  const auto caches = find_caches(places());
  ASSERT_THAT(caches, SizeIs(1));
  EXPECT_EQ(caches[0], (CacheFile{names.cache_path(3), geteuid(), true, kPort, 0x0001, 3}));
  ASSERT_THAT(find_locks(places().public_directory, now), SizeIs(1));
  EXPECT_FALSE(find_locks(places().public_directory, now)[0].is_held);
  const auto flushed = flush_cache(caches[0], places(), now + seconds(5));
  ASSERT_TRUE(flushed) << flushed.error().what();
  EXPECT_THAT(view_cache(caches[0], now)->entries, IsEmpty());
  struct stat status {};
  ASSERT_EQ(stat(caches[0].path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0644U);
  ASSERT_TRUE(*lock->try_lock(0));
  const LockView held = find_locks(places().public_directory, now).at(0);
  EXPECT_TRUE(held.is_held);
  EXPECT_TRUE(held.is_service);
}

TEST_F(ClientView, EveryEntryIsSeenWithItsAgeAndGeneration) {
  const Instant now = monotonic_now();
  make_cache(0, 20, now - seconds(7));
  const auto view = view_cache(find_caches(places()).at(0), now);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->capacity, 64U);
  struct stat status {};
  ASSERT_EQ(stat(view->file.path.c_str(), &status), 0);
  EXPECT_EQ(view->bytes, static_cast<std::size_t>(status.st_size));
  std::set<Gid> seen;
  for (const CachedPath& entry : view->entries) {
    seen.insert(entry.key.dgid);
    EXPECT_EQ(entry.path.age, seconds(7));
    EXPECT_EQ(entry.path.generation, view->generation);
    EXPECT_EQ(entry.path.origin, PathOrigin::SaQuery);
    EXPECT_EQ(entry.path.record.dgid, entry.key.dgid);
  }
  // 20 keys in 64 places all fit, whatever their hashes are.
  EXPECT_THAT(seen, SizeIs(20));
}

TEST_F(ClientView, ARecordIsFoundByItsEndsWhateverItsMembership) {
  const Instant now = monotonic_now();
  make_cache(0, 1, now - seconds(3));
  mad::PathRecord record = view_cache(find_caches(places()).at(0), now)->entries.at(0).path.record;
  const auto found = find_record(find_caches(places()), record, now);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->age, seconds(3));
  record.dlid = Lid(99);
  EXPECT_FALSE(find_record(find_caches(places()), record, now));
}

TEST_F(ClientView, AnEmptiedCacheHasNoEntries) {
  const Instant now = monotonic_now();
  make_cache(0, 5, now);
  const CacheFile file = find_caches(places()).at(0);
  const std::uint32_t before = view_cache(file, now)->generation;
  const auto flushed = flush_cache(file, places(), now + seconds(5));
  ASSERT_TRUE(flushed) << flushed.error().what();
  EXPECT_GT(*flushed, before);
  EXPECT_EQ(view_cache(file, now)->generation, *flushed);
  EXPECT_THAT(view_cache(file, now)->entries, IsEmpty());
  // Its lock is free again.
  auto lock = NodeLock::open(names().lock_path());
  ASSERT_TRUE(lock);
  EXPECT_TRUE(*lock->try_lock(0));
}

TEST_F(ClientView, ACacheWhoseResolverDoesNotListenIsLeftAlone) {
  const Instant now = monotonic_now();
  make_cache(0, 5, now);
  auto lock = NodeLock::open(names().lock_path());
  ASSERT_TRUE(*lock->try_lock(0));
  const CacheFile file = find_caches(places()).at(0);
  const auto flushed = flush_cache(file, places(), now + seconds(5));
  ASSERT_FALSE(flushed);
  EXPECT_TRUE(flushed.error().is(Errc::NotFound)) << flushed.error().what();
  EXPECT_THAT(view_cache(file, now)->entries, SizeIs(5));
}

TEST_F(ClientView, ACacheOfAnotherUserIsNotEmptied) {
  CacheFile file{place_.path() + "/x", geteuid() + 1, false, kPort, 1, 0};
  const auto flushed = flush_cache(file, places(), monotonic_now());
  ASSERT_FALSE(flushed);
  EXPECT_TRUE(flushed.error().is(Errc::NoPermission));
}

TEST_F(ClientView, LocksAreSeenWithoutTakingPart) {
  const Instant now = monotonic_now();
  EXPECT_TRUE(NodeLock::status(names().lock_path(), now).error().is(Errc::NotFound));
  EXPECT_THAT(find_locks(run(), now), IsEmpty());
  auto lock = NodeLock::open(names().lock_path());
  ASSERT_TRUE(lock);
  ASSERT_THAT(find_locks(run(), now), SizeIs(1));
  EXPECT_FALSE(find_locks(run(), now)[0].is_held);
  ASSERT_TRUE(*lock->try_lock(0));
  lock->beat(now - seconds(4));
  const LockView held = find_locks(run(), now).at(0);
  EXPECT_TRUE(held.is_held);
  EXPECT_FALSE(held.is_service);
  EXPECT_EQ(held.silence, seconds(4));
  EXPECT_EQ(held.port_guid, kPort);
  EXPECT_EQ(held.partition, 0x0001);
  EXPECT_EQ(held.uid, geteuid());
  ASSERT_TRUE(*lock->try_lock(kServicePlace));
  EXPECT_TRUE(find_locks(run(), now).at(0).is_service);
  // Looking took nothing.
  lock->unlock(0);
  auto other = NodeLock::open(names().lock_path());
  EXPECT_TRUE(*other->try_lock(0));
  // In the next epoch nobody is the resolver yet.
  lock->end_epoch(0);
  EXPECT_FALSE(find_locks(run(), now).at(0).is_held);
}

TEST_F(ClientView, ThePortFileOfATcpService) {
  const std::string path = place_.path() + "/ibacm.port";
  EXPECT_FALSE(find_port_file(path));
  for (const char* text : {"", "0\n", "x", "65536", "-1"}) {
    std::ofstream(path) << text;
    EXPECT_FALSE(find_port_file(path)) << text;
  }
  // Nobody listens at port 1 of a test machine.
  std::ofstream(path) << "1\n";
  const auto found = find_port_file(path);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tcp_port, 1);
  EXPECT_FALSE(found->is_answered);
}

TEST(Privileges, AreThoseOfThisProcess) {
  const Privileges privileges = privileges_of_this_process();
  EXPECT_EQ(privileges.uid, geteuid());
  EXPECT_FALSE(has_library("libno-such-library.so.7"));
  EXPECT_TRUE(has_library("libc.so.6"));
}

}  // namespace
}  // namespace wireup::acm
