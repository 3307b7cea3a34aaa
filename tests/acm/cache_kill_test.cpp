// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "acm/cache/node_cache.hpp"
#include "acm/temporary_directory.hpp"
#include "base/rng.hpp"
#include "support/seed.hpp"

namespace wireup::acm {
namespace {

using std::chrono::microseconds;

const CacheBasis kBasis{Gid::make(0xFE80000000000000, Guid(1)), Lid(1), Lid(2)};
constexpr std::uint64_t kPeers = 200;

PathKey key_of(std::uint64_t peer) {
  PathKey key;
  key.sgid = Gid::make(0xFE80000000000000, Guid(1));
  key.dgid = Gid::make(0xFE80000000000000, Guid(0x1000 + peer));
  key.pkey = PKey(0xFFFF);
  return key;
}

/// A record whose every field follows from one number, so that a mixture of two writes is seen.
mad::PathRecord record_of(std::uint64_t peer, std::uint32_t version) {
  mad::PathRecord record;
  record.sgid = key_of(peer).sgid;
  record.dgid = key_of(peer).dgid;
  record.service_id = ServiceId(version * 0x9E3779B97F4A7C15ULL);
  record.dlid = Lid(static_cast<std::uint16_t>(version));
  record.slid = Lid(static_cast<std::uint16_t>(~version));
  record.flow_label = FlowLabel(version & FlowLabel::kMax);
  record.pkey = PKey(static_cast<std::uint16_t>(version * 7));
  record.rate = static_cast<std::uint8_t>(version & 0x3FU);
  record.preference = static_cast<std::uint8_t>(version * 13);
  return record;
}

bool is_whole(std::uint64_t peer, const ResolvedPath& path) {
  // The version is found by its low 16 bits and must explain the rest.
  const std::uint32_t low = path.record.dlid.value();
  for (std::uint32_t high = 0; high < 64; ++high) {
    if (path.record == record_of(peer, high << 16U | low)) {
      return true;
    }
  }
  return false;
}

class CacheKillTest : public testing::Test {
 protected:
  [[nodiscard]] Result<CacheWriter> open_writer() const {
    return CacheWriter::open({path_, 256, kBasis, true});
  }

  test::TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/cache";
};

/// Forks a writer that stores as fast as it can until it is killed.
pid_t fork_writer(const std::string& path, std::uint32_t first_version) {
  const pid_t child = fork();
  if (child == 0) {
    auto cache = CacheWriter::open({path, 256, kBasis, true});
    if (!cache) {
      _exit(2);
    }
    for (std::uint32_t version = first_version;; version = (version + 1) & 0x3FFFFFU) {
      const std::uint64_t peer = version % kPeers;
      cache->store(key_of(peer), record_of(peer, version), PathOrigin::AcmMulticast,
                   Instant(Duration(version)));
      if (version % 37 == 0) {
        cache->remove(key_of((version / 37) % kPeers));
      }
      if (version % 100003 == 0) {
        cache->invalidate(kBasis);
      }
    }
  }
  return child;
}

TEST_F(CacheKillTest, ReadersNeverSeeAMixtureWhileWritersAreKilled) {
  ASSERT_TRUE(open_writer().has_value());
  struct Shared {
    std::atomic<bool> stop;
    std::atomic<std::uint64_t> found;
    std::atomic<std::uint64_t> broken;
  };
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  const auto fork_reader = [&](std::uint64_t peer) {
    const pid_t child = fork();
    if (child == 0) {
      const auto cache = CacheReader::open(path_);
      if (!cache) {
        _exit(2);
      }
      while (!shared->stop.load()) {
        peer = (peer + 1) % kPeers;
        if (const auto path = cache->lookup(key_of(peer), Instant())) {
          ++shared->found;
          shared->broken += is_whole(peer, *path) ? 0 : 1;
        }
      }
      _exit(0);
    }
    return child;
  };
  std::vector<pid_t> readers{fork_reader(0), fork_reader(31)};
  Rng rng(wireup::test::seed(1));
  std::uint32_t repaired = 0;
  for (int round = 0; round < 60; ++round) {
    const pid_t writer = fork_writer(path_, static_cast<std::uint32_t>(rng.below(1U << 22U)));
    ASSERT_GE(writer, 0);
    std::this_thread::sleep_for(microseconds(1000 + rng.below(8000)));
    kill(writer, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
    // A reader dies too: nobody waits for it.
    pid_t& reader_to_end = readers[rng.below(readers.size())];
    ASSERT_GE(reader_to_end, 0);
    kill(reader_to_end, SIGKILL);
    ASSERT_EQ(waitpid(reader_to_end, &status, 0), reader_to_end);
    reader_to_end = fork_reader(rng.below(kPeers));
    // The successor repairs what was half written, and stores where the dead one stood.
    auto successor = open_writer();
    ASSERT_TRUE(successor.has_value());
    repaired += successor->repaired();
    const std::uint64_t peer = rng.below(kPeers);
    successor->store(key_of(peer), record_of(peer, 5), PathOrigin::AcmMulticast, Instant());
    const auto reader = CacheReader::open(path_);
    ASSERT_TRUE(reader.has_value());
    ASSERT_TRUE(reader->lookup(key_of(peer), Instant()).has_value());
  }
  shared->stop.store(true);
  for (const pid_t child : readers) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(shared->broken.load(), 0U);
  EXPECT_GT(shared->found.load(), 1000U);
  RecordProperty("repaired", static_cast<int>(repaired));
  munmap(shared, sizeof(Shared));
}

TEST_F(CacheKillTest, ThreadsReadWhileOneWrites) {
  auto cache = open_writer();
  ASSERT_TRUE(cache.has_value());
  const auto reader = CacheReader::open(path_);
  ASSERT_TRUE(reader.has_value());
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> broken{0};
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t peer = 0; !stop.load(std::memory_order_relaxed); ++peer) {
        if (const auto path = reader->lookup(key_of(peer % kPeers), Instant())) {
          broken += is_whole(peer % kPeers, *path) ? 0 : 1;
        }
      }
    });
  }
  for (std::uint32_t version = 0; version < 20000; ++version) {
    cache->store(key_of(version % kPeers), record_of(version % kPeers, version),
                 PathOrigin::AcmMulticast, Instant());
  }
  stop.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(broken.load(), 0U);
}

}  // namespace
}  // namespace wireup::acm
