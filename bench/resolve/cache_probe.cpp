// SPDX-License-Identifier: BSD-3-Clause
// What a lookup in a large node cache costs, beside a bare probe of the same table:
//   cache_probe lookup|probe ENTRIES
// 16 threads look up random keys of a table of ENTRIES paths while another one stores; prints
// {"ns": …, "found": …}: a lookup's processor time, median of the threads, and the share found.
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "acm/cache/node_cache.hpp"
#include "acm/cache/slot.hpp"
#include "base/unique_fd.hpp"
#include "figures.hpp"

namespace {

using namespace wireup;

constexpr int kReaders = 16;
constexpr int kLookups = 200000;
constexpr int kWarmUpLookups = 20000;
constexpr std::uint64_t kPrefix = 0xFE80000000000000;
constexpr std::uint64_t kFirstGuid = 0x0002C90300000000;
constexpr Instant kNow{std::chrono::hours(1)};
const Gid kOwn = Gid::make(kPrefix, Guid(kFirstGuid - 1));

/// xorshift64*: a few instructions, so that it is not what is measured.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL | 1U) {}
  std::uint32_t below(std::uint32_t bound) {
    state_ ^= state_ >> 12U;
    state_ ^= state_ << 25U;
    state_ ^= state_ >> 27U;
    const std::uint64_t high = state_ * 0x2545F4914F6CDD1DULL >> 32U;
    return static_cast<std::uint32_t>(high * bound >> 32U);
  }

 private:
  std::uint64_t state_;
};

/// The interface id of a peer as the eight bytes of the wire.
std::uint64_t wire_id(std::uint32_t peer) {
  static_assert(std::endian::native == std::endian::little);
  return __builtin_bswap64(kFirstGuid + peer);
}

Gid gid_of(std::uint32_t peer) {
  Gid::Bytes bytes = kOwn.bytes();
  const std::uint64_t id = wire_id(peer);
  std::memcpy(bytes.data() + 8, &id, sizeof(id));
  return Gid(bytes);
}

acm::PathKey key_to(const Gid& dgid) {
  acm::PathKey key;
  key.sgid = kOwn;
  key.dgid = dgid;
  key.pkey = PKey(0xFFFF);
  return key;
}

mad::PathRecord record_of(const acm::PathKey& key, std::uint32_t peer) {
  mad::PathRecord record;
  record.sgid = key.sgid;
  record.dgid = key.dgid;
  record.pkey = key.pkey;
  record.slid = Lid(1);
  record.dlid = Lid(static_cast<std::uint16_t>(1 + peer % 0xBFFE));
  record.reversible = true;
  record.mtu_selector = mad::Selector::Exactly;
  record.mtu = 5;
  record.rate_selector = mad::Selector::Exactly;
  record.rate = 16;
  return record;
}

template <typename T>
void check(const Result<T>& result) {
  if (!result) {
    std::fprintf(stderr, "cache_probe: %s\n", std::string(result.error().what()).c_str());
    std::exit(1);
  }
}

/// The library's lookup.
class Lookup {
 public:
  explicit Lookup(const std::string& file) : reader_(open(file)) {}
  bool operator()(std::uint32_t peer, std::uint64_t& sum) const {
    const auto path = reader_.lookup(key_to(gid_of(peer)), kNow);
    if (!path.has_value()) {
      return false;
    }
    sum += path->record.dlid.value();
    return true;
  }

 private:
  static acm::CacheReader open(const std::string& file) {
    auto opened = acm::CacheReader::open(file);
    check(opened);
    return std::move(*opened);
  }

  acm::CacheReader reader_;
};

/// The least that finds an entry of this table: the key is in the table's form already, and what a
/// writer does at the same time is not noticed.
class Probe {
 public:
  explicit Probe(const std::string& file) {
    const auto fd = acm::open_trusted(file, 0);
    check(fd);
    const auto size = acm::file_size(fd->value(), file);
    check(size);
    auto mapping = acm::Mapping::map(fd->value(), *size, false, file);
    check(mapping);
    mapping_ = std::move(*mapping);
    header_ = static_cast<const acm::CacheHeader*>(mapping_.address());
    slots_ = static_cast<const acm::CacheSlot*>(static_cast<const void*>(header_ + 1));
    mask_ = header_->slots.load() - 1;
    key_ = acm::pack_key(key_to(gid_of(0)), 0);
  }

  bool operator()(std::uint32_t peer, std::uint64_t& sum) const {
    acm::SlotWords key = key_;
    key[acm::kDgidWord + 1] = wire_id(peer);
    const std::uint64_t hash = acm::hash(key);
    key[acm::kTailWord] |= header_->generation.load(std::memory_order_acquire);
    for (std::uint64_t place = 0; place < acm::kProbeWindow; ++place) {
      const acm::CacheSlot& slot = slots_[(hash + place) & mask_];
      const auto word = [&](std::size_t i) {
        return slot.words[i].load(std::memory_order_relaxed);
      };
      if (word(2) == key[2] && word(1) == key[1] && word(4) == key[4] && word(3) == key[3] &&
          word(8) == key[8] && (word(10) & ~kOrigin) == key[10]) {
        std::array<std::uint64_t, 8> record;
        for (std::size_t i = 0; i < record.size(); ++i) {
          record[i] = word(i);
        }
        sum += use(record);
        return true;
      }
      if (slot.sequence.load(std::memory_order_relaxed) == 0) {
        return false;
      }
    }
    return false;
  }

 private:
  /// The bits of the last word that are no part of the key.
  static constexpr std::uint64_t kOrigin = acm::slot_tail::kOriginMask << acm::slot_tail::kOriginAt;

  /// Makes the copy one that is needed.
  static std::uint64_t use(std::array<std::uint64_t, 8>& record) {
    asm volatile("" : "+m"(record));
    return record[5];
  }

  acm::Mapping mapping_;
  const acm::CacheHeader* header_ = nullptr;
  const acm::CacheSlot* slots_ = nullptr;
  std::uint64_t mask_ = 0;
  acm::SlotWords key_{};
};

double thread_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

struct Outcome {
  double nanoseconds = 0;
  int found = 0;
  std::uint64_t sum = 0;
};

template <typename Way>
Outcome read(const Way& way, std::uint64_t seed, std::uint32_t entries) {
  Random random(seed);
  Outcome outcome;
  for (int i = 0; i < kWarmUpLookups; ++i) {
    way(random.below(entries), outcome.sum);
  }
  const double start = thread_nanoseconds();
  for (int i = 0; i < kLookups; ++i) {
    outcome.found += way(random.below(entries), outcome.sum) ? 1 : 0;
  }
  outcome.nanoseconds = (thread_nanoseconds() - start) / kLookups;
  return outcome;
}

template <typename Way>
int measure(acm::CacheWriter& writer, const std::string& file, std::uint32_t entries) {
  const Way way(file);
  std::atomic<bool> stop{false};
  std::array<Outcome, kReaders> outcomes;
  std::thread storing([&] {
    for (Random random(99); !stop.load(std::memory_order_relaxed);) {
      const std::uint32_t peer = random.below(entries);
      const acm::PathKey key = key_to(gid_of(peer));
      writer.store(key, record_of(key, peer), acm::PathOrigin::SaQuery, kNow);
    }
  });
  std::vector<std::thread> reading;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    reading.emplace_back([&, i] { outcomes[i] = read(way, i + 1, entries); });
  }
  for (std::thread& thread : reading) {
    thread.join();
  }
  stop.store(true);
  storing.join();
  std::vector<double> times;
  double found = 0;
  for (const Outcome& outcome : outcomes) {
    times.push_back(outcome.nanoseconds);
    found += static_cast<double>(outcome.found) / kLookups / kReaders;
  }
  std::printf("{\"ns\": %.2f, \"found\": %.4f}\n", bench::quantile(times, 0.5), found);
  return found > 0.99 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 3 ? argv[1] : "";
  const long entries = argc == 3 ? std::strtol(argv[2], nullptr, 10) : 0;
  if ((mode != "lookup" && mode != "probe") || entries < 1 || entries > 4000000) {
    std::fprintf(stderr, "usage: cache_probe lookup|probe ENTRIES\n");
    return 2;
  }
  std::string directory = "/dev/shm/wireup-bench-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) {
    std::perror("cache_probe: a directory in /dev/shm");
    return 1;
  }
  const std::string file = directory + "/cache";
  const auto peers = static_cast<std::uint32_t>(entries);
  // At most half full, so that all are found.
  auto writer = acm::CacheWriter::open({file, 2 * peers, {kOwn, Lid(1), Lid(1)}});
  check(writer);
  for (std::uint32_t peer = 0; peer < peers; ++peer) {
    const acm::PathKey key = key_to(gid_of(peer));
    writer->store(key, record_of(key, peer), acm::PathOrigin::SaQuery, kNow);
  }
  const int status = mode == "lookup" ? measure<Lookup>(*writer, file, peers)
                                      : measure<Probe>(*writer, file, peers);
  unlink(file.c_str());
  rmdir(directory.c_str());
  return status;
}
