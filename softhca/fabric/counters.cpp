// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/counters.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <string>

namespace softhca {

struct CountersFile {
  std::array<std::array<std::atomic<std::uint64_t>, 64>, kMaxHcaPorts> ports;
};
static_assert(kCounterCount <= 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

namespace {

constexpr std::array<std::string_view, kCounterCount> kNames = {
    "sa_path_queries",
    "sa_other",
    "smp_sent",
    "gmp_other",
    "umad_timeouts",
    "ud_sent",
    "ud_received",
    "ud_dropped_no_route",
    "ud_dropped_no_receive",
    "ud_dropped_key",
    "ud_dropped_fault",
    "ud_duplicated_fault",
    "ud_reordered_fault",
    "multicasts_sent",
    "multicasts_received",
    "cm_req",
    "cm_mra",
    "cm_rej",
    "cm_rep",
    "cm_rtu",
    "cm_dreq",
    "cm_drep",
    "cm_other",
    "rc_sent",
    "rc_received",
    "rc_retry_exceeded",
    "rc_rnr_exceeded",
    "rc_remote_access",
    "qps_created",
    "qps_destroyed",
};
static_assert(!kNames.back().empty(), "every counter has a name");

}  // namespace

std::string_view counter_name(Counter counter) {
  const auto index = static_cast<std::size_t>(counter);
  return index < kCounterCount ? kNames[index] : std::string_view("unknown");
}

std::unique_ptr<Counters> Counters::attach(const char* dir) {
  if (dir == nullptr || *dir == '\0') {
    errno = ENOENT;
    return nullptr;
  }
  const std::string path = std::string(dir) + "/" + kCountersFile;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) {
    return nullptr;
  }
  int error = 0;
  void* memory = MAP_FAILED;
  struct stat status = {};
  constexpr auto kSize = static_cast<off_t>(sizeof(CountersFile));
  if (fstat(fd, &status) != 0) {
    error = errno;
  } else if (status.st_size != kSize) {
    if (geteuid() == 0 && status.st_size == 0) {
      // Root's fabric is used by several users; what its umask took away is given back.
      static_cast<void>(fchmod(fd, 0666));
    }
    // The content is all zeros, so it does not matter which process gets here first.
    if (ftruncate(fd, kSize) != 0) {
      error = errno;
    }
  }
  if (error == 0) {
    memory = mmap(nullptr, sizeof(CountersFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    error = memory == MAP_FAILED ? errno : 0;
  }
  close(fd);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  return std::unique_ptr<Counters>(new Counters(static_cast<CountersFile*>(memory)));
}

Counters::~Counters() {
  munmap(file_, sizeof(CountersFile));
}

void Counters::add(std::uint32_t port_index, Counter counter, std::uint64_t n) {
  const auto index = static_cast<std::size_t>(counter);
  if (port_index < kMaxHcaPorts && index < kCounterCount) {
    file_->ports[port_index][index].fetch_add(n, std::memory_order_relaxed);
  }
}

std::uint64_t Counters::value(std::uint32_t port_index, Counter counter) const {
  const auto index = static_cast<std::size_t>(counter);
  if (port_index >= kMaxHcaPorts || index >= kCounterCount) {
    return 0;
  }
  return file_->ports[port_index][index].load(std::memory_order_relaxed);
}

std::uint64_t Counters::total(Counter counter) const {
  std::uint64_t sum = 0;
  for (std::uint32_t port = 0; port < kMaxHcaPorts; ++port) {
    sum += value(port, counter);
  }
  return sum;
}

void Counters::reset() {
  for (auto& port : file_->ports) {
    for (auto& counter : port) {
      // Read first: an untouched page of the sparse file stays untouched.
      if (counter.load(std::memory_order_relaxed) != 0) {
        counter.store(0, std::memory_order_relaxed);
      }
    }
  }
}

bool count_cm_mad(Counters& counters, std::uint32_t port_index, std::span<const std::uint8_t> mad) {
  // Common MAD header: base version, class, class version, method; attribute id at 16.
  if (mad.size() < 24 || mad[0] != 1 || mad[1] != 0x07 || mad[2] != 2 || mad[3] != 0x03) {
    return false;
  }
  const auto attribute = static_cast<unsigned>(mad[16] << 8 | mad[17]);
  Counter counter = Counter::CmOther;
  switch (attribute) {
    case 0x10:
      counter = Counter::CmReq;
      break;
    case 0x11:
      counter = Counter::CmMra;
      break;
    case 0x12:
      counter = Counter::CmRej;
      break;
    case 0x13:
      counter = Counter::CmRep;
      break;
    case 0x14:
      counter = Counter::CmRtu;
      break;
    case 0x15:
      counter = Counter::CmDreq;
      break;
    case 0x16:
      counter = Counter::CmDrep;
      break;
    default:
      break;
  }
  counters.add(port_index, counter);
  return true;
}

}  // namespace softhca
