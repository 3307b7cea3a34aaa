// SPDX-License-Identifier: BSD-3-Clause
// The writer of the node cache killed after each of its stores: it is stepped through a call one
// instruction at a time, and whenever the file has changed, the file as it is then is what a kill
// there would leave. Readers of it must find old entries, new ones or none, and a successor must be
// able to go on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "acm/cache/node_cache.hpp"
#include "acm/cache/slot.hpp"
#include "acm/temporary_directory.hpp"

// Under a sanitizer most instructions would be the instrumentation's.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace wireup::acm {
namespace {

const CacheBasis kBasis{Gid::make(0xFE80000000000000, Guid(1)), Lid(1), Lid(2)};
const CacheBasis kOtherBasis{Gid::make(0xFE80000000000000, Guid(1)), Lid(3), Lid(2)};
constexpr std::uint32_t kSlots = 64;
constexpr std::uint64_t kBystanders = 20;
constexpr std::uint64_t kTarget = 1000;
constexpr Instant kEarly{std::chrono::seconds(1)};
constexpr Instant kLate{std::chrono::seconds(2)};

PathKey key_of(std::uint64_t peer, std::uint8_t number = 0) {
  PathKey key;
  key.sgid = Gid::make(0xFE80000000000000, Guid(1));
  key.dgid = Gid::make(0xFE80000000000000, Guid(0x1000 + peer));
  key.pkey = PKey(0xFFFF);
  key.number = number;
  return key;
}

/// Every field follows from the version, so that a mixture of two is none of them.
mad::PathRecord record_of(const PathKey& key, std::uint16_t version) {
  mad::PathRecord record;
  record.sgid = key.sgid;
  record.dgid = key.dgid;
  record.service_id = ServiceId(version * 0x9E3779B97F4A7C15ULL);
  record.dlid = Lid(version);
  record.slid = Lid(static_cast<std::uint16_t>(~version));
  record.flow_label = FlowLabel(version);
  record.pkey = PKey(static_cast<std::uint16_t>(version * 7));
  record.rate = static_cast<std::uint8_t>(version & 0x3FU);
  record.preference = static_cast<std::uint8_t>(version * 13);
  return record;
}

/// Versions of a key's record that may be found; 0 means that none may be.
using Allowed = std::map<PathKey, std::set<std::uint16_t>>;

class CacheStepTest : public testing::Test {
 protected:
  using Act = std::function<void(CacheWriter&)>;
  using Check = std::function<void(const std::string& file)>;

  [[nodiscard]] Result<CacheWriter> open(const std::string& file,
                                         std::uint32_t first_generation = 1) const {
    return CacheWriter::open({file, kSlots, kBasis, true, false, first_generation});
  }

  /// A process that stops, is stepped through `act` and ends.
  [[nodiscard]] pid_t fork_stepped(const std::function<void()>& act) {
    const pid_t child = fork();
    if (child == 0) {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
        _exit(2);
      }
      raise(SIGSTOP);
      act();
      _exit(0);
    }
    return child;
  }

  /// One instruction of the process; false when it has ended, which must be by itself.
  [[nodiscard]] static bool step(pid_t child) {
    int status = 0;
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0 ||
        waitpid(child, &status, 0) != child) {
      ADD_FAILURE() << "the writer cannot be stepped";
      return false;
    }
    if (WIFSTOPPED(status)) {
      return true;
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    return false;
  }

  [[nodiscard]] static std::string contents(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  /// Steps a writer of the cache through `act`, and calls `check` with a copy of the file after
  /// each store into it.
  void step_through(const Act& act, const Check& check) {
    const pid_t writer = fork_stepped([&] {
      auto cache = open(path_);
      if (!cache) {
        _exit(2);
      }
      raise(SIGSTOP);
      act(*cache);
    });
    ASSERT_GE(writer, 0);
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    if (WIFEXITED(status)) {
      GTEST_SKIP() << "the kernel here lacks ptrace";
    }
    // Opening is another test's.
    ASSERT_EQ(ptrace(PTRACE_CONT, writer, nullptr, nullptr), 0);
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);

    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    const auto mapping = Mapping::map(fd, cache_file_size(kSlots), false, path_);
    close(fd);
    ASSERT_TRUE(mapping.has_value());
    std::string last(static_cast<const char*>(mapping->address()), mapping->size());
    for (std::size_t steps = 0; step(writer); ++steps) {
      ASSERT_LT(steps, 5000000U) << "a call that does not end";
      if (std::memcmp(last.data(), mapping->address(), last.size()) == 0) {
        continue;
      }
      ++stores_;
      last.assign(static_cast<const char*>(mapping->address()), mapping->size());
      const std::string copy = directory_.path() + "/copy";
      unlink(copy.c_str());
      const int to = ::open(copy.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      ASSERT_EQ(write(to, last.data(), last.size()), static_cast<ssize_t>(last.size()));
      close(to);
      check(copy);
      if (HasFatalFailure()) {
        kill(writer, SIGKILL);
        waitpid(writer, &status, 0);
        FAIL() << "after store " << stores_;
      }
    }
  }

  /// Every key is found with one of its versions; 0 stands for a miss.
  static void expect_only(const CacheReader& reader, const Allowed& allowed) {
    for (const auto& [key, versions] : allowed) {
      const auto path = reader.lookup(key, kLate);
      const std::uint16_t version = path.has_value() ? path->record.dlid.value() : 0;
      ASSERT_TRUE(versions.contains(version)) << "version " << version;
      ASSERT_TRUE(!path.has_value() || path->record == record_of(key, version)) << "a mixture";
    }
  }

  /// What a kill at this point must leave: for readers, and for the next writer.
  void expect_usable(const std::string& file, const Allowed& allowed) {
    {
      const auto reader = CacheReader::open(file);
      ASSERT_TRUE(reader.has_value());
      expect_only(*reader, allowed);
    }
    auto successor = open(file);
    ASSERT_TRUE(successor.has_value()) << successor.error().what();
    EXPECT_LE(successor->repaired(), 1U);
    torn_ += successor->repaired();
    const auto reader = CacheReader::open(file);
    ASSERT_TRUE(reader.has_value());
    ASSERT_NO_FATAL_FAILURE(expect_only(*reader, allowed));
    for (const auto& [key, versions] : allowed) {
      successor->store(key, record_of(key, 77), PathOrigin::SaQuery, kLate);
      ASSERT_EQ(reader->lookup(key, kLate)->record, record_of(key, 77));
    }
    // Nothing is there twice: what is removed is gone.
    for (const auto& [key, versions] : allowed) {
      successor->remove(key);
      ASSERT_FALSE(reader->lookup(key, kLate).has_value());
    }
  }

  /// Fills the cache with bystanders, which must all stay.
  [[nodiscard]] Allowed prepare(std::uint32_t first_generation = 1) {
    auto cache = open(path_, first_generation);
    EXPECT_TRUE(cache.has_value());
    Allowed allowed;
    for (std::uint64_t peer = 0; peer < kBystanders; ++peer) {
      cache->store(key_of(peer), record_of(key_of(peer), 5), PathOrigin::SaQuery, kEarly);
      allowed[key_of(peer)] = {5};
    }
    EXPECT_EQ(cache->size().entries, kBystanders) << "the keys were chosen to fit";
    return allowed;
  }

  void store_target(std::uint16_t version) {
    auto cache = open(path_);
    ASSERT_TRUE(cache.has_value());
    cache->store(key_of(kTarget), record_of(key_of(kTarget), version), PathOrigin::SaQuery, kEarly);
  }

  test::TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/cache";
  /// Stores seen, and those that left a slot half written.
  std::size_t stores_ = 0;
  std::size_t torn_ = 0;
};

TEST_F(CacheStepTest, StoringANewPath) {
  Allowed allowed = prepare();
  allowed[key_of(kTarget)] = {0, 9};
  step_through(
      [](CacheWriter& cache) {
        cache.store(key_of(kTarget), record_of(key_of(kTarget), 9), PathOrigin::SaQuery, kLate);
      },
      [&](const std::string& file) { expect_usable(file, allowed); });
  // A word that is stored as it was is no change; the sequence changes twice.
  EXPECT_GE(stores_, 8U);
  EXPECT_GE(torn_, 7U);
}

TEST_F(CacheStepTest, StoringAPathAnew) {
  Allowed allowed = prepare();
  store_target(8);
  allowed[key_of(kTarget)] = {0, 8, 9};
  step_through(
      [](CacheWriter& cache) {
        cache.store(key_of(kTarget), record_of(key_of(kTarget), 9), PathOrigin::SaQuery, kLate);
      },
      [&](const std::string& file) { expect_usable(file, allowed); });
  EXPECT_GE(torn_, 5U);
}

TEST_F(CacheStepTest, RemovingAPath) {
  Allowed allowed = prepare();
  store_target(8);
  allowed[key_of(kTarget)] = {0, 8};
  step_through([](CacheWriter& cache) { cache.remove(key_of(kTarget)); },
               [&](const std::string& file) { expect_usable(file, allowed); });
  EXPECT_GE(torn_, 5U);
}

TEST_F(CacheStepTest, StoringAndRemovingAllPathsOfAPeer) {
  Allowed allowed = prepare();
  constexpr std::uint8_t kNumbers = 4;
  for (std::uint8_t number = 0; number < kNumbers; ++number) {
    allowed[key_of(kTarget, number)] = {0, static_cast<std::uint16_t>(20 + number)};
  }
  step_through(
      [](CacheWriter& cache) {
        std::vector<mad::PathRecord> records;
        for (std::uint8_t number = 0; number < kNumbers; ++number) {
          records.push_back(record_of(key_of(kTarget), static_cast<std::uint16_t>(20 + number)));
        }
        cache.store_paths(key_of(kTarget), records, PathOrigin::SaQuery, kLate);
        cache.remove_paths(key_of(kTarget));
      },
      [&](const std::string& file) { expect_usable(file, allowed); });
  EXPECT_GE(torn_, std::size_t{7} * kNumbers);
}

/// The oldest entry of a full window makes room: that one, or the new one, or none of the two.
TEST_F(CacheStepTest, MakingRoom) {
  Allowed allowed;
  {
    auto cache = open(path_);
    ASSERT_TRUE(cache.has_value());
    // Every slot is taken; each peer is younger than the one before it.
    for (std::uint16_t peer = 0; peer < 10 * kSlots; ++peer) {
      cache->store(key_of(peer), record_of(key_of(peer), 5), PathOrigin::SaQuery,
                   kEarly + std::chrono::microseconds(peer));
    }
    ASSERT_EQ(cache->size().entries, kSlots);
  }
  const auto before = CacheReader::open(path_)->entries(kLate);
  // Which one makes room: found out on a copy.
  const std::string trial = directory_.path() + "/trial";
  {
    std::ofstream(trial, std::ios::binary) << contents(path_);
    ASSERT_EQ(chmod(trial.c_str(), 0600), 0);
    auto cache = open(trial);
    ASSERT_TRUE(cache.has_value());
    cache->store(key_of(kTarget), record_of(key_of(kTarget), 9), PathOrigin::SaQuery, kLate);
  }
  const auto after = CacheReader::open(trial);
  std::size_t evicted = 0;
  for (const CachedPath& entry : before) {
    const bool stays = after->lookup(entry.key, kLate).has_value();
    evicted += stays ? 0 : 1;
    allowed[entry.key] = stays ? std::set<std::uint16_t>{5} : std::set<std::uint16_t>{0, 5};
  }
  ASSERT_EQ(evicted, 1U);
  allowed[key_of(kTarget)] = {0, 9};
  step_through(
      [](CacheWriter& cache) {
        cache.store(key_of(kTarget), record_of(key_of(kTarget), 9), PathOrigin::SaQuery, kLate);
      },
      [&](const std::string& file) {
        const auto reader = CacheReader::open(file);
        ASSERT_TRUE(reader.has_value());
        ASSERT_NO_FATAL_FAILURE(expect_only(*reader, allowed));
        auto successor = open(file);
        ASSERT_TRUE(successor.has_value());
        torn_ += successor->repaired();
        ASSERT_NO_FATAL_FAILURE(expect_only(*CacheReader::open(file), allowed));
        ASSERT_GE(successor->size().entries, kSlots - 1);
      });
  EXPECT_GE(torn_, 5U);
}

/// All entries are valid or none is, whatever the moment.
TEST_F(CacheStepTest, Invalidating) {
  const Allowed before = prepare();
  Allowed after = before;
  for (auto& [key, versions] : after) {
    versions = {0};
  }
  const std::uint32_t generation = CacheReader::open(path_)->generation();
  std::size_t valid = 0;
  std::size_t invalid = 0;
  step_through(
      [](CacheWriter& cache) { cache.invalidate(kOtherBasis); },
      [&](const std::string& file) {
        const bool is_valid = CacheReader::open(file)->generation() == generation;
        ++(is_valid ? valid : invalid);
        ASSERT_NO_FATAL_FAILURE(expect_only(*CacheReader::open(file), is_valid ? before : after));
        // The next writer knows the port as it is now.
        auto successor = CacheWriter::open({file, kSlots, kOtherBasis, true});
        ASSERT_TRUE(successor.has_value());
        ASSERT_EQ(successor->size().entries, 0U) << "paths of another LID came back";
      });
  EXPECT_GE(invalid, 2U) << "the generation, then what it stands for";
}

/// After the last generation comes the first one again; what it once held must not come back.
TEST_F(CacheStepTest, InvalidatingTheLastGeneration) {
  const Allowed before = prepare(0xFFFFFFFF);
  step_through([](CacheWriter& cache) { cache.invalidate(kOtherBasis); },
               [&](const std::string& file) {
                 const auto reader = CacheReader::open(file);
                 ASSERT_TRUE(reader.has_value());
                 Allowed allowed = before;
                 for (auto& [key, versions] : allowed) {
                   versions = reader->generation() == 0xFFFFFFFF ? std::set<std::uint16_t>{0, 5}
                                                                 : std::set<std::uint16_t>{0};
                 }
                 expect_only(*reader, allowed);
               });
  EXPECT_EQ(CacheReader::open(path_)->generation(), 1U);
  EXPECT_GE(stores_, 5 * kBystanders);
}

/// A writer that is killed while it opens the cache, and repairs it: the next one can.
TEST_F(CacheStepTest, RepairingWhatAKilledWriterLeft) {
  Allowed allowed = prepare();
  store_target(8);
  // Two slots half written: of a bystander, and of the target.
  {
    const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    const auto mapping = Mapping::map(fd, cache_file_size(kSlots), true, path_);
    close(fd);
    ASSERT_TRUE(mapping.has_value());
    auto* slots = static_cast<CacheSlot*>(
        static_cast<void*>(static_cast<std::uint8_t*>(mapping->address()) + sizeof(CacheHeader)));
    std::size_t spoilt = 0;
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      bool is_unused = false;
      const auto words = read_slot(slots[i], is_unused);
      for (const PathKey& key : {key_of(kTarget), key_of(3)}) {
        if (words.has_value() && holds(*words, pack_key(key, 1))) {
          ++slots[i].sequence;
          slots[i].words[5] = 0x1234;
          ++spoilt;
        }
      }
    }
    ASSERT_EQ(spoilt, 2U);
  }
  allowed[key_of(kTarget)] = {0};
  allowed[key_of(3)] = {0};
  const std::string before = contents(path_);
  const pid_t writer = fork_stepped([&] {
    const auto cache = open(path_);
    _exit(cache.has_value() && cache->repaired() == 2 ? 0 : 3);
  });
  ASSERT_GE(writer, 0);
  int status = 0;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  if (WIFEXITED(status)) {
    GTEST_SKIP() << "the kernel here lacks ptrace";
  }
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const auto mapping = Mapping::map(fd, before.size(), false, path_);
  close(fd);
  ASSERT_TRUE(mapping.has_value());
  std::string last = before;
  while (step(writer)) {
    if (std::memcmp(last.data(), mapping->address(), last.size()) == 0) {
      continue;
    }
    last.assign(static_cast<const char*>(mapping->address()), mapping->size());
    ++stores_;
    const std::string copy = directory_.path() + "/copy";
    unlink(copy.c_str());
    std::ofstream(copy, std::ios::binary) << last;
    ASSERT_EQ(chmod(copy.c_str(), 0600), 0);
    const auto reader = CacheReader::open(copy);
    ASSERT_TRUE(reader.has_value());
    ASSERT_NO_FATAL_FAILURE(expect_only(*reader, allowed));
    auto successor = open(copy);
    ASSERT_TRUE(successor.has_value());
    ASSERT_LE(successor->repaired(), 2U);
    ASSERT_NO_FATAL_FAILURE(expect_only(*reader, allowed));
    ASSERT_EQ(successor->size().entries, kBystanders - 1);
  }
  EXPECT_GE(stores_, 10U);
}

/// A new file has its name only when it is whole.
TEST_F(CacheStepTest, MakingTheFile) {
  const pid_t writer = fork_stepped([&] { _exit(open(path_).has_value() ? 0 : 3); });
  ASSERT_GE(writer, 0);
  int status = 0;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  if (WIFEXITED(status)) {
    GTEST_SKIP() << "the kernel here lacks ptrace";
  }
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t drafts = 0;
  off_t draft_size = -1;
  while (step(writer)) {
    struct stat found {};
    if (stat(path_.c_str(), &found) == 0) {
      // From here on it does not change: the first look and a few more.
      if (after++ < 3) {
        const auto reader = CacheReader::open(path_);
        ASSERT_TRUE(reader.has_value()) << reader.error().what();
        ASSERT_EQ(reader->size().entries, 0U);
      }
      continue;
    }
    ++before;
    // A draft that was left: the next writer replaces it. Looked at in each of its sizes.
    if (stat((path_ + ".new").c_str(), &found) == 0 && found.st_size != draft_size) {
      draft_size = found.st_size;
      ++drafts;
      const std::string copy = directory_.path() + "/copy";
      unlink(copy.c_str());
      std::ofstream(copy + ".new", std::ios::binary) << contents(path_ + ".new");
      ASSERT_TRUE(open(copy).has_value());
      ASSERT_TRUE(CacheReader::open(copy).has_value());
      ASSERT_NE(stat((copy + ".new").c_str(), &found), 0) << "a draft stays behind";
    }
  }
  EXPECT_GT(before, 100U);
  EXPECT_GE(drafts, 2U);
  EXPECT_GT(after, 0U);
}

}  // namespace
}  // namespace wireup::acm
#endif
