// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

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
  other = key;
  other.number = 1;
  EXPECT_FALSE(readers.lookup(other, kNow).has_value());
}

TEST_F(NodeCacheTest, UpdatesInPlaceAndRemoves) {
  CacheWriter cache = writer();
  const CacheReader readers = reader();
  cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
  cache.store(key_of(1), record_of(key_of(1), 8), PathOrigin::SaQuery, kNow);
  EXPECT_EQ(cache.size().entries, 1U);
  EXPECT_EQ(readers.lookup(key_of(1), kNow)->record.dlid, Lid(8));
  EXPECT_EQ(readers.lookup(key_of(1), kNow)->origin, PathOrigin::SaQuery);
  EXPECT_TRUE(cache.remove(key_of(1)));
  EXPECT_FALSE(cache.remove(key_of(1)));
  EXPECT_FALSE(readers.lookup(key_of(1), kNow).has_value());
  EXPECT_EQ(cache.size().entries, 0U);
}

TEST_F(NodeCacheTest, CountsWhatAReaderWouldSeeChange) {
  CacheWriter cache = writer();
  const CacheReader readers = reader();
  std::uint64_t before = readers.changes();
  const auto changed = [&] {
    return readers.changes() != std::exchange(before, readers.changes());
  };
  cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
  EXPECT_FALSE(changed()) << "nobody has read it before";
  cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::SaQuery, kNow + seconds(1));
  EXPECT_FALSE(changed()) << "the same path again";
  cache.store(key_of(1), record_of(key_of(1), 8), PathOrigin::SaQuery, kNow + seconds(2));
  EXPECT_TRUE(changed()) << "another path";
  EXPECT_FALSE(cache.remove(key_of(2)));
  EXPECT_FALSE(changed()) << "nothing was there";
  EXPECT_TRUE(cache.remove(key_of(1)));
  EXPECT_TRUE(changed()) << "removed";
  const CacheWriter next = writer(true);
  EXPECT_TRUE(changed()) << "the former writer may have died before it counted";
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
  EXPECT_EQ(kept.size(), cache.size().entries);
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
  EXPECT_EQ(cache.size().entries, 64U);
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
  EXPECT_EQ(cache.size().entries, 0U);
  for (std::uint64_t peer = 0; peer < 20; ++peer) {
    EXPECT_FALSE(readers.lookup(key_of(peer), kNow).has_value());
  }
  cache.store(key_of(1), record_of(key_of(1), 9), PathOrigin::AcmMulticast, kNow);
  EXPECT_EQ(readers.lookup(key_of(1), kNow)->record.dlid, Lid(9));
  EXPECT_EQ(cache.size().entries, 1U);
}

TEST_F(NodeCacheTest, ASuccessorKeepsWhatIsStillTrue) {
  {
    CacheWriter cache = writer();
    cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
  }
  const CacheReader readers = reader();
  EXPECT_EQ(writer(true).size().entries, 1U);
  EXPECT_TRUE(readers.lookup(key_of(1), kNow).has_value());
  // Another LID of the port, or another subnet manager: void.
  EXPECT_EQ(writer(true, 64, {kBasis.port_gid, Lid(9), kBasis.sm_lid}).size().entries, 0U);
  EXPECT_FALSE(readers.lookup(key_of(1), kNow).has_value());
  {
    CacheWriter cache = writer(true, 64, {kBasis.port_gid, Lid(9), kBasis.sm_lid});
    cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
  }
  EXPECT_EQ(writer(false, 64, {kBasis.port_gid, Lid(9), kBasis.sm_lid}).size().entries, 0U)
      << "a successor that knows of a gap keeps nothing";

  // Each part of the basis counts by itself.
  for (const CacheBasis& other :
       {CacheBasis{Gid::make(0xFE80000000000000, Guid(2)), kBasis.port_lid, kBasis.sm_lid},
        CacheBasis{Gid::make(0xFEC0000000000000, Guid(1)), kBasis.port_lid, kBasis.sm_lid},
        CacheBasis{kBasis.port_gid, Lid(9), kBasis.sm_lid},
        CacheBasis{kBasis.port_gid, kBasis.port_lid, Lid(9)}}) {
    {
      CacheWriter cache = writer(false);
      cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
    }
    EXPECT_EQ(writer(true).size().entries, 1U);
    const std::uint32_t before = readers.generation();
    EXPECT_EQ(writer(true, 64, other).size().entries, 0U);
    EXPECT_NE(readers.generation(), before);
  }
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

  // Who reads must not wait for the other end of a pipe either.
  const std::string pipe = directory_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto piped = CacheReader::open(pipe);
  ASSERT_FALSE(piped.has_value());
  EXPECT_TRUE(piped.error().is(Errc::NoPermission)) << piped.error().what();

  if (geteuid() == 0 && chown(path_.c_str(), 12345, 12345) == 0) {
    const auto foreign = CacheReader::open(path_);
    ASSERT_FALSE(foreign.has_value());
    EXPECT_TRUE(foreign.error().is(Errc::NoPermission));
    EXPECT_NE(foreign.error().what().find("12345"), std::string_view::npos);
  }
}

/// A reader that is killed, or writes where it should not, cannot leave anything.
TEST_F(NodeCacheTest, ReadersHaveNoWritableMemoryOfIt) {
  static_cast<void>(writer());
  const auto permissions = [&] {
    std::set<std::string> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.ends_with(path_)) {
        found.insert(line.substr(line.find(' ') + 1, 4));
      }
    }
    return found;
  };
  EXPECT_TRUE(permissions().empty());
  const CacheReader readers = reader();
  EXPECT_EQ(permissions(), std::set<std::string>{"r--s"});
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

TEST_F(NodeCacheTest, SizeIsWhatTheFileTakes) {
  CacheWriter cache = writer(false, 100);
  cache.store(key_of(1), record_of(key_of(1), 7), PathOrigin::AcmMulticast, kNow);
  const CacheSize size = reader().size();
  EXPECT_EQ(size.capacity, 128U) << "a power of two";
  EXPECT_EQ(size.entries, 1U);
  EXPECT_EQ(size.generation, cache.generation());
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(size.bytes, static_cast<std::size_t>(status.st_size));
}

TEST_F(NodeCacheTest, AllEntriesCanBeWalked) {
  CacheWriter cache = writer(false, 256);
  const CacheReader readers = reader();
  EXPECT_TRUE(readers.entries(kNow).empty());
  std::map<PathKey, Lid> stored;
  for (std::uint16_t peer = 0; peer < 100; ++peer) {
    PathKey key = key_of(peer % 50);
    key.number = static_cast<std::uint8_t>(peer / 50);
    cache.store(key, record_of(key, peer), PathOrigin::SaQuery, kNow);
    stored.emplace(key, Lid(peer));
  }
  cache.remove(key_of(7));
  stored.erase(key_of(7));
  for (const CachedPath& entry : readers.entries(kNow + seconds(3))) {
    const auto at = stored.find(entry.key);
    ASSERT_NE(at, stored.end());
    EXPECT_EQ(entry.path.record, record_of(entry.key, at->second.value()));
    EXPECT_EQ(entry.path.origin, PathOrigin::SaQuery);
    EXPECT_EQ(entry.path.generation, cache.generation());
    EXPECT_EQ(entry.path.age, seconds(3));
    stored.erase(at);
  }
  EXPECT_TRUE(stored.empty()) << stored.size() << " are missing";
  cache.invalidate(kBasis);
  EXPECT_TRUE(readers.entries(kNow).empty());
}

TEST_F(NodeCacheTest, APeerMayHaveSeveralPaths) {
  CacheWriter cache = writer(false, 256);
  const CacheReader readers = reader();
  const PathKey key = key_of(1);
  const auto dlids = [&](const PathKey& of) {
    std::vector<std::uint16_t> found;
    for (const CachedPath& path : readers.paths(of, kNow)) {
      EXPECT_EQ(path.key.number, found.size());
      found.push_back(path.path.record.dlid.value());
    }
    return found;
  };
  // Whatever their order is, the numbers follow the LIDs.
  std::vector<mad::PathRecord> records;
  for (const std::uint16_t dlid : std::vector<std::uint16_t>{10, 8, 11, 9}) {
    records.push_back(record_of(key, dlid));
  }
  cache.store_paths(key, records, PathOrigin::SaQuery, kNow);
  EXPECT_EQ(dlids(key), (std::vector<std::uint16_t>{8, 9, 10, 11}));
  EXPECT_EQ(readers.lookup(key, kNow)->record.dlid, Lid(8)) << "number 0 is who asks for none";
  PathKey third = key;
  third.number = 2;
  EXPECT_EQ(readers.lookup(third, kNow)->record.dlid, Lid(10));
  EXPECT_EQ(dlids(third).size(), 4U) << "the key's number does not matter";
  EXPECT_TRUE(dlids(key_of(2)).empty());

  // One that failed leaves a hole, and the others their numbers.
  EXPECT_TRUE(cache.remove(third));
  EXPECT_EQ(readers.paths(key, kNow).size(), 3U);
  third.number = 3;
  EXPECT_EQ(readers.lookup(third, kNow)->record.dlid, Lid(11));

  // Fewer paths than before: the rest is gone.
  cache.store_paths(key, std::span(records).first(2), PathOrigin::SaQuery, kNow);
  EXPECT_EQ(dlids(key), (std::vector<std::uint16_t>{8, 10}));
  EXPECT_EQ(cache.size().entries, 2U);
  cache.remove_paths(key);
  EXPECT_EQ(cache.size().entries, 0U);

  // More than there are numbers.
  records.clear();
  for (std::uint16_t dlid = 0; dlid < 100; ++dlid) {
    records.push_back(record_of(key, dlid));
  }
  cache.store_paths(key, records, PathOrigin::SaQuery, kNow);
  EXPECT_EQ(readers.paths(key, kNow).size(), kMaxPathsPerPeer);
}

TEST_F(NodeCacheTest, InboundPathsAreStoredWhereTheyDiffer) {
  CacheWriter cache = writer();
  const CacheReader readers = reader();
  const PathKey key = key_of(1);
  PathKey inbound = key;
  inbound.direction = PathDirection::Inbound;
  EXPECT_FALSE(readers.lookup(inbound, kNow).has_value());

  mad::PathRecord record = record_of(key, 7);
  record.slid = Lid(5);
  cache.store(key, record, PathOrigin::SaQuery, kNow);
  EXPECT_FALSE(readers.lookup(inbound, kNow).has_value()) << "not reversible";
  record.reversible = true;
  cache.store(key, record, PathOrigin::SaQuery, kNow);
  const auto back = readers.lookup(inbound, kNow);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->record.sgid, key.dgid);
  EXPECT_EQ(back->record.dgid, key.sgid);
  EXPECT_EQ(back->record.slid, Lid(7));
  EXPECT_EQ(back->record.dlid, Lid(5));
  EXPECT_EQ(back->origin, PathOrigin::SaQuery);
  EXPECT_EQ(back->record, mad::reversed(record));

  mad::PathRecord own_way = mad::reversed(record);
  own_way.sl = Sl(3);
  cache.store(inbound, own_way, PathOrigin::SaQuery, kNow);
  EXPECT_EQ(readers.lookup(inbound, kNow)->record, own_way);
  EXPECT_EQ(readers.lookup(key, kNow)->record, record);
  EXPECT_EQ(readers.paths(inbound, kNow).size(), 1U);
  EXPECT_EQ(cache.size().entries, 2U);
  cache.remove_paths(key);
  EXPECT_EQ(cache.size().entries, 0U);
}

TEST_F(NodeCacheTest, ANewFileBeginsWithTheGenerationThatIsWanted) {
  auto cache = CacheWriter::open({path_, 64, kBasis, false, false, 0x30001});
  ASSERT_TRUE(cache.has_value());
  EXPECT_EQ(reader().generation(), 0x30001U);
  cache->invalidate(kBasis);
  EXPECT_EQ(reader().generation(), 0x30002U);
}

TEST(SlotWords, KeepWhatTheyPack) {
  PathKey key = key_of(5);
  key.service_id = ServiceId(0xFFFFFFFFFFFFFFFF);
  key.sl = Sl(15);
  key.number = kMaxPathsPerPeer - 1;
  SlotEntry entry{key, record_of(key, 0xBFFF), PathOrigin::Card, 0xFFFFFFFF, kNow};
  EXPECT_EQ(unpack(pack(entry)).key, key);
  EXPECT_EQ(unpack(pack(entry)).record, entry.record);
  EXPECT_EQ(unpack(pack(entry)).origin, PathOrigin::Card);
  EXPECT_EQ(unpack(pack(entry)).generation, 0xFFFFFFFF);
  EXPECT_EQ(unpack(pack(entry)).stored_at, kNow);
  EXPECT_TRUE(holds(pack(entry), pack_key(key, 0xFFFFFFFF)));
  EXPECT_FALSE(holds(pack(entry), pack_key(key, 1)));
  // What a key does not ask for must not look like something it could ask for.
  entry.key.sl.reset();
  EXPECT_EQ(unpack(pack(entry)).key, entry.key);
  EXPECT_FALSE(holds(pack(entry), pack_key(key, 0xFFFFFFFF)));

  entry.key = key;
  entry.key.direction = PathDirection::Inbound;
  entry.record = mad::reversed(entry.record);
  EXPECT_EQ(unpack(pack(entry)).key, entry.key);
  EXPECT_TRUE(holds(pack(entry), pack_key(entry.key, 0xFFFFFFFF)));
  EXPECT_FALSE(holds(pack(entry), pack_key(key, 0xFFFFFFFF)));
}

TEST(SlotWords, AKeyKeepsItsPlaceFromOneGenerationToTheNext) {
  EXPECT_EQ(hash(pack_key(key_of(1), 1)), hash(pack_key(key_of(1), 2)));
  EXPECT_NE(hash(pack_key(key_of(1), 1)), hash(pack_key(key_of(2), 1)));
}

/// The GUIDs of a fabric differ in few bits, at one end or the other.
TEST(SlotWords, KeysAreSpreadEvenly) {
  constexpr std::size_t kSlots = 4096;
  for (const unsigned shift : {0U, 8U, 16U, 24U, 40U, 48U}) {
    std::vector<unsigned> held(kSlots);
    for (std::uint64_t peer = 0; peer < kSlots; ++peer) {
      PathKey key = key_of(0);
      key.dgid = Gid::make(0xFE80000000000000, Guid(0x0002C90300000000 ^ peer << shift));
      ++held[hash(pack_key(key, 1)) & (kSlots - 1)];
    }
    // 36.8 % of the slots stay empty when places are drawn by chance.
    const auto empty = static_cast<std::size_t>(std::count(held.begin(), held.end(), 0U));
    EXPECT_LT(empty, kSlots * 42 / 100) << "shift " << shift;
    EXPECT_LT(*std::max_element(held.begin(), held.end()), 12U) << "shift " << shift;
  }
}

}  // namespace
}  // namespace wireup::acm
