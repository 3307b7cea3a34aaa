// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "acm/cache/node_cache.hpp"
#include "acm/cache/slot.hpp"
#include "acm/temporary_directory.hpp"

namespace wireup::acm {
namespace {

using std::chrono::seconds;

const CacheBasis kBasis{Gid::make(0xFE80000000000000, Guid(1)), Lid(1), Lid(2)};
constexpr Instant kNow{seconds(100)};

PathKey key_of(std::uint64_t peer) {
  PathKey key;
  key.sgid = Gid::make(0xFE80000000000000, Guid(1));
  key.dgid = Gid::make(0xFE80000000000000, Guid(0x1000 + peer));
  key.pkey = PKey(0xFFFF);
  return key;
}

mad::PathRecord record_of(const PathKey& key, std::uint16_t dlid) {
  mad::PathRecord record;
  record.sgid = key.sgid;
  record.dgid = key.dgid;
  record.pkey = key.pkey;
  record.dlid = Lid(dlid);
  record.rate = 16;
  record.mtu = 5;
  return record;
}

class NodeCacheTest : public testing::Test {
 protected:
  [[nodiscard]] CacheWriter writer(bool keep = false, std::uint32_t slots = 64,
                                   const CacheBasis& basis = kBasis) {
    auto opened = CacheWriter::open({path_, slots, basis, keep});
    EXPECT_TRUE(opened.has_value()) << opened.error().what();
    return std::move(*opened);
  }
  [[nodiscard]] CacheReader reader() {
    auto opened = CacheReader::open(path_);
    EXPECT_TRUE(opened.has_value()) << opened.error().what();
    return std::move(*opened);
  }

  test::TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/cache";
};

TEST_F(NodeCacheTest, StoresAndFindsByTheWholeKey) {
  CacheWriter cache = writer();
  const CacheReader readers = reader();
  PathKey key = key_of(1);
  key.service_id = ServiceId(0x1234);
  key.sl = Sl(3);
  EXPECT_FALSE(readers.lookup(key, kNow).has_value());
  cache.store(key, record_of(key, 7), PathOrigin::AcmMulticast, kNow);
  const auto found = readers.lookup(key, kNow + seconds(5));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->record, record_of(key, 7));
  EXPECT_EQ(found->origin, PathOrigin::AcmMulticast);
  EXPECT_EQ(found->generation, cache.generation());
  EXPECT_EQ(found->age, seconds(5));

  PathKey other = key;
  other.sl = Sl(4);
  EXPECT_FALSE(readers.lookup(other, kNow).has_value());
  other = key;
  other.sl.reset();
  EXPECT_FALSE(readers.lookup(other, kNow).has_value());
  other = key;
  other.service_id = ServiceId();
  EXPECT_FALSE(readers.lookup(other, kNow).has_value());
  other = key;
  other.pkey = PKey(0x8001);
  EXPECT_FALSE(readers.lookup(other, kNow).has_value());
  other = key;
  other.sgid = key_of(9).dgid;
  EXPECT_FALSE(readers.lookup(other, kNow).has_value());
}

TEST_F(NodeCacheTest, UpdatesInPlaceAndRemoves) {
  CacheWriter cache = writer();
  const CacheReader readers = reader();
  cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
  cache.store(key_of(1), record_of(key_of(1), 8), PathOrigin::SaQuery, kNow);
  EXPECT_EQ(cache.size(), 1U);
  EXPECT_EQ(readers.lookup(key_of(1), kNow)->record.dlid, Lid(8));
  EXPECT_EQ(readers.lookup(key_of(1), kNow)->origin, PathOrigin::SaQuery);
  EXPECT_TRUE(cache.remove(key_of(1)));
  EXPECT_FALSE(cache.remove(key_of(1)));
  EXPECT_FALSE(readers.lookup(key_of(1), kNow).has_value());
  EXPECT_EQ(cache.size(), 0U);
}

TEST_F(NodeCacheTest, KeysAreFoundAfterNeighboursAreRemoved) {
  CacheWriter cache = writer();
  const CacheReader readers = reader();
  for (std::uint64_t peer = 0; peer < 40; ++peer) {
    cache.store(key_of(peer), record_of(key_of(peer), 7), PathOrigin::AcmMulticast, kNow);
  }
  std::set<std::uint64_t> kept;
  for (std::uint64_t peer = 0; peer < 40; ++peer) {
    if (readers.lookup(key_of(peer), kNow).has_value()) {
      kept.insert(peer);
    }
  }
  EXPECT_EQ(kept.size(), cache.size());
  for (std::uint64_t peer = 0; peer < 40; peer += 2) {
    EXPECT_EQ(cache.remove(key_of(peer)), kept.contains(peer));
    kept.erase(peer);
  }
  for (const std::uint64_t peer : kept) {
    EXPECT_TRUE(readers.lookup(key_of(peer), kNow).has_value()) << peer;
  }
}

TEST_F(NodeCacheTest, IsBoundedAndTheOldestMakesRoom) {
  CacheWriter cache = writer();
  const CacheReader readers = reader();
  EXPECT_EQ(cache.capacity(), 64U);
  for (std::uint64_t peer = 0; peer < 1000; ++peer) {
    cache.store(key_of(peer), record_of(key_of(peer), 7), PathOrigin::AcmMulticast,
                kNow + seconds(static_cast<int>(peer)));
    ASSERT_TRUE(readers.lookup(key_of(peer), kNow).has_value()) << "the newest is always there";
  }
  EXPECT_EQ(cache.size(), 64U);
  std::size_t old = 0;
  for (std::uint64_t peer = 0; peer < 500; ++peer) {
    old += readers.lookup(key_of(peer), kNow).has_value() ? 1 : 0;
  }
  EXPECT_EQ(old, 0U);
}

TEST_F(NodeCacheTest, ManyEntriesAreAllFoundAtHalfLoad) {
  CacheWriter cache = writer(false, 8192);
  const CacheReader readers = reader();
  for (std::uint64_t peer = 0; peer < 4096; ++peer) {
    cache.store(key_of(peer), record_of(key_of(peer), static_cast<std::uint16_t>(peer)),
                PathOrigin::AcmMulticast, kNow);
  }
  std::size_t lost = 0;
  for (std::uint64_t peer = 0; peer < 4096; ++peer) {
    const auto found = readers.lookup(key_of(peer), kNow);
    lost += found.has_value() ? 0 : 1;
    if (found) {
      EXPECT_EQ(found->record.dlid.value(), peer);
    }
  }
  EXPECT_LE(lost, 4U) << "windows overflow only rarely at half load";
}

TEST_F(NodeCacheTest, InvalidationVoidsAllAtOnce) {
  CacheWriter cache = writer();
  const CacheReader readers = reader();
  for (std::uint64_t peer = 0; peer < 20; ++peer) {
    cache.store(key_of(peer), record_of(key_of(peer), 7), PathOrigin::AcmMulticast, kNow);
  }
  const std::uint32_t before = cache.generation();
  cache.invalidate(kBasis);
  EXPECT_EQ(readers.generation(), before + 1);
  EXPECT_EQ(cache.size(), 0U);
  for (std::uint64_t peer = 0; peer < 20; ++peer) {
    EXPECT_FALSE(readers.lookup(key_of(peer), kNow).has_value());
  }
  cache.store(key_of(1), record_of(key_of(1), 9), PathOrigin::AcmMulticast, kNow);
  EXPECT_EQ(readers.lookup(key_of(1), kNow)->record.dlid, Lid(9));
  EXPECT_EQ(cache.size(), 1U);
}

TEST_F(NodeCacheTest, ASuccessorKeepsWhatIsStillTrue) {
  {
    CacheWriter cache = writer();
    cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
  }
  const CacheReader readers = reader();
  EXPECT_EQ(writer(true).size(), 1U);
  EXPECT_TRUE(readers.lookup(key_of(1), kNow).has_value());
  // Another LID of the port, or another subnet manager: void.
  EXPECT_EQ(writer(true, 64, {kBasis.port_gid, Lid(9), kBasis.sm_lid}).size(), 0U);
  EXPECT_FALSE(readers.lookup(key_of(1), kNow).has_value());
  {
    CacheWriter cache = writer(true, 64, {kBasis.port_gid, Lid(9), kBasis.sm_lid});
    cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
  }
  EXPECT_EQ(writer(false, 64, {kBasis.port_gid, Lid(9), kBasis.sm_lid}).size(), 0U)
      << "a successor that knows of a gap keeps nothing";
}

TEST_F(NodeCacheTest, OnlyFilesOfThisUserOrRootAreTrusted) {
  static_cast<void>(writer());
  ASSERT_EQ(chmod(path_.c_str(), 0622), 0);
  const auto writable = CacheReader::open(path_);
  ASSERT_FALSE(writable.has_value());
  EXPECT_TRUE(writable.error().is(Errc::NoPermission)) << writable.error().what();
  EXPECT_FALSE(CacheWriter::open({path_, 64, kBasis, true}).has_value());

  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  const std::string link = directory_.path() + "/link";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  const auto linked = CacheReader::open(link);
  ASSERT_FALSE(linked.has_value());
  EXPECT_TRUE(linked.error().is(Errc::NoPermission));

  if (geteuid() == 0 && chown(path_.c_str(), 12345, 12345) == 0) {
    const auto foreign = CacheReader::open(path_);
    ASSERT_FALSE(foreign.has_value());
    EXPECT_TRUE(foreign.error().is(Errc::NoPermission));
    EXPECT_NE(foreign.error().what().find("12345"), std::string_view::npos);
  }
}

TEST_F(NodeCacheTest, FilesThatAreNoCacheAreMalformed) {
  const auto make = [&](std::size_t size, std::uint64_t magic, std::uint32_t version,
                        std::uint32_t slots) {
    unlink(path_.c_str());
    const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(pwrite(fd, &magic, sizeof(magic), 0), static_cast<ssize_t>(sizeof(magic)));
    ASSERT_EQ(pwrite(fd, &version, sizeof(version), 8), static_cast<ssize_t>(sizeof(version)));
    ASSERT_EQ(pwrite(fd, &slots, sizeof(slots), 12), static_cast<ssize_t>(sizeof(slots)));
    ASSERT_EQ(ftruncate(fd, static_cast<off_t>(size)), 0);
    close(fd);
  };
  const auto is_malformed = [&] {
    const auto opened = CacheReader::open(path_);
    return !opened.has_value() && opened.error().is(Errc::Malformed);
  };
  const std::size_t good = cache_file_size(64);
  make(0, kCacheMagic, kCacheVersion, 64);
  EXPECT_TRUE(is_malformed()) << "empty";
  make(good, 0, kCacheVersion, 64);
  EXPECT_TRUE(is_malformed()) << "magic";
  make(good, kCacheMagic, kCacheVersion + 1, 64);
  EXPECT_TRUE(is_malformed()) << "version";
  make(good, kCacheMagic, kCacheVersion, 128);
  EXPECT_TRUE(is_malformed()) << "more slots than the file has";
  make(good, kCacheMagic, kCacheVersion, 63);
  EXPECT_TRUE(is_malformed()) << "not a power of two";
  make(good, kCacheMagic, kCacheVersion, 0x80000000);
  EXPECT_TRUE(is_malformed()) << "too many";
  make(good, kCacheMagic, kCacheVersion, 64);
  EXPECT_FALSE(is_malformed());
  // The writer replaces a bad one by a good one.
  make(good, 0, kCacheVersion, 64);
  CacheWriter cache = writer();
  cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
  EXPECT_TRUE(reader().lookup(key_of(1), kNow).has_value());
  EXPECT_TRUE(CacheReader::open(directory_.path() + "/none").error().is(Errc::NotFound));
}

// A sanitizer's instrumentation makes system calls of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(NodeCacheTest, ALookupMakesNoSystemCall) {
  CacheWriter cache = writer();
  cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
  const CacheReader readers = reader();
  // A child that may call nothing but exit is killed by any other call.
  EXPECT_EXIT(
      {
        test::forbid_system_calls();
        const bool found = readers.lookup(key_of(1), kNow).has_value();
        const bool missed = !readers.lookup(key_of(2), kNow).has_value();
        test::exit_now(found && missed ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}
#endif

TEST(SlotWords, KeepWhatTheyPack) {
  PathKey key = key_of(5);
  key.service_id = ServiceId(0xFFFFFFFFFFFFFFFF);
  SlotEntry entry{key, record_of(key, 0xBFFF), PathOrigin::Card, 0xFFFFFFFF, kNow};
  EXPECT_EQ(unpack(pack(entry)).key, key);
  EXPECT_EQ(unpack(pack(entry)).record, entry.record);
  EXPECT_EQ(unpack(pack(entry)).origin, PathOrigin::Card);
  EXPECT_EQ(unpack(pack(entry)).generation, 0xFFFFFFFF);
  EXPECT_EQ(unpack(pack(entry)).stored_at, kNow);
  EXPECT_TRUE(holds(pack(entry), pack_key(key, 0xFFFFFFFF)));
  EXPECT_FALSE(holds(pack(entry), pack_key(key, 1)));
}

}  // namespace
}  // namespace wireup::acm
