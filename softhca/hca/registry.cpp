// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/registry.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>
#include <vector>

#include "softhca/hca/clock.hpp"
#include "softhca/hca/robust_lock.hpp"

namespace softhca::hca {
namespace {

constexpr std::uint64_t kFileLockPatienceNs = 10'000'000'000;
constexpr std::uint64_t kReapIntervalNs = 1'000'000'000;

/// The mapping is made by the bare system call: it is some hundred gigabytes of address space, and
/// a sanitizer that saw it would want shadow memory for all of it.
void* map_file(int fd) {
  const long mapped = ::syscall(SYS_mmap, nullptr, kRegistrySize, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_NORESERVE, fd, 0);
  return mapped == -1 ? nullptr : reinterpret_cast<void*>(mapped);
}

/// Waits for the file's lock, but not for ever: its holder may have been stopped.
bool lock_fd(int fd) {
  const std::uint64_t deadline = monotonic_ns() + kFileLockPatienceNs;
  useconds_t pause = 50;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return false;
    }
    if (monotonic_ns() > deadline) {
      errno = EBUSY;
      return false;
    }
    ::usleep(pause);
    pause = std::min<useconds_t>(2 * pause, 5000);
  }
  return true;
}

/// Opens or creates a file of the run directory with the directory's own openness.
int open_shared(int dir_fd, const char* name, mode_t dir_mode) {
  const mode_t mode = dir_mode & 0666;
  int fd = ::openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd >= 0) {
    ::fchmod(fd, mode);  // whatever the umask of this process is
    return fd;
  }
  return errno == EEXIST ? ::openat(dir_fd, name, O_RDWR | O_CLOEXEC) : -1;
}

/// Guarded by the file's lock.
std::vector<std::uint32_t>& tokens_of_this_image() {
  static auto* tokens = new std::vector<std::uint32_t>;  // never destroyed: used while exiting
  return *tokens;
}

bool prepare(void* base) {
  auto* header = static_cast<RegistryHeader*>(base);
  if (header->magic.load(std::memory_order_acquire) == 0) {
    // A new file is all zero, which is the empty state of every table.
    header->version = kRegistryVersion;
    header->size = kRegistrySize;
    header->magic.store(kRegistryMagic, std::memory_order_release);
  }
  if (header->magic.load(std::memory_order_acquire) != kRegistryMagic ||
      header->version != kRegistryVersion || header->size != kRegistrySize) {
    errno = EPROTO;
    return false;
  }
  return true;
}

}  // namespace

Registry::Registry(int fd, void* base, std::string dir)
    : fd_(fd),
      base_(static_cast<std::uint8_t*>(base)),
      dir_(std::move(dir)),
      processes_(static_cast<RegistryHeader*>(base)),
      windows_(static_cast<std::atomic<std::uint8_t>*>(std::calloc(kWindows / 8 + 1, 1))) {}

void Registry::map_window(std::uint64_t window) const {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;
#endif
  const std::uint64_t start = window << kWindowBits;
  const std::uint64_t length = std::min(std::uint64_t{1} << kWindowBits, kRegistrySize - start);
  // Where the kernel cannot do it, the pages come one by one as they are used.
  ::syscall(SYS_madvise, base_ + start, length, MADV_POPULATE_WRITE);
  windows_[window >> 3].fetch_or(static_cast<std::uint8_t>(1U << (window & 7)));
}

void Registry::empty_pages(std::uint64_t place, std::uint64_t bytes) const {
  ::syscall(SYS_madvise, base_ + place, bytes, MADV_REMOVE);
}

Registry::~Registry() {
  std::free(windows_);
  ::syscall(SYS_munmap, base_, kRegistrySize);
  ::close(fd_);
}

std::unique_ptr<Registry> Registry::attach(const char* dir) {
  std::array<char, PATH_MAX> absolute{};
  if (::realpath(dir, absolute.data()) == nullptr) {
    return nullptr;
  }
  const int dir_fd = ::open(absolute.data(), O_DIRECTORY | O_CLOEXEC);
  if (dir_fd < 0) {
    return nullptr;
  }
  struct stat info {};
  int fd = -1;
  if (::fstat(dir_fd, &info) == 0) {
    if (::mkdirat(dir_fd, kEventsDir, info.st_mode & 0777) == 0) {
      ::fchmodat(dir_fd, kEventsDir, info.st_mode & 0777, 0);
    }
    fd = open_shared(dir_fd, kRegistryFile, info.st_mode);
  }
  const int open_error = errno;
  ::close(dir_fd);
  if (fd < 0) {
    errno = open_error;
    return nullptr;
  }
  void* base = nullptr;
  bool ready = false;
  int error = 0;
  if (lock_fd(fd)) {
    if (::fstat(fd, &info) == 0 && (info.st_size != 0 || ::ftruncate(fd, kRegistrySize) == 0)) {
      if (info.st_size != 0 && static_cast<std::uint64_t>(info.st_size) != kRegistrySize) {
        errno = EPROTO;
      } else {
        base = map_file(fd);
        ready = base != nullptr && prepare(base);
      }
    }
    error = errno;
    ::flock(fd, LOCK_UN);
  } else {
    error = errno;
  }
  if (!ready) {
    if (base != nullptr) {
      ::syscall(SYS_munmap, base, kRegistrySize);
    }
    ::close(fd);
    errno = error;
    return nullptr;
  }
  ::madvise(base, kRegistrySize, MADV_DONTDUMP);
  return std::unique_ptr<Registry>(new Registry(fd, base, absolute.data()));
}

bool Registry::lock_file() const {
  return lock_fd(fd_);
}
void Registry::unlock_file() const {
  ::flock(fd_, LOCK_UN);
}

std::uint32_t Registry::claim_record(std::uint32_t pid, std::uint64_t start_time,
                                     const std::uint64_t* nonce) {
  RegistryHeader& head = header();
  for (std::uint32_t slot = 0; slot < kMaxProcesses; ++slot) {
    ProcessRecord& record = head.processes[slot];
    if (record.token.load(std::memory_order_relaxed) != 0) {
      continue;
    }
    constexpr std::uint32_t kIncarnations = 1U << (32 - kTokenSlotBits);
    const std::uint32_t incarnation = head.next_incarnation.fetch_add(1) % kIncarnations;
    const std::uint32_t token = incarnation << kTokenSlotBits | (slot + 1);
    record.pid = pid;
    record.start_time = start_time;
    record.probe = reinterpret_cast<std::uint64_t>(nonce);
    record.nonce = *nonce;
    record.relay_state.store(RelayState::None);
    record.token.store(token, std::memory_order_release);
    tokens_of_this_image().push_back(token);
    return token;
  }
  return 0;
}

std::uint32_t Registry::enrol(const std::uint64_t* nonce) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  const auto status = read_process_status(pid);
  if (!status || !lock_file()) {
    return 0;
  }
  RegistryHeader& head = header();
  // Looking after the dead costs a system call or two for each process of the fabric, so a crowd
  // that starts together does it once.
  const std::uint64_t now = monotonic_ns();
  if (now - head.reaped_at.load() >= kReapIntervalNs) {
    head.reaped_at.store(now);
    reap_locked();
  }
  std::uint32_t token = claim_record(pid, status->start_time, nonce);
  if (token == 0 && reap_locked() > 0) {
    token = claim_record(pid, status->start_time, nonce);
  }
  unlock_file();
  if (token == 0) {
    errno = ENOSPC;
  }
  return token;
}

void Registry::leave(std::uint32_t token) {
  // No lock: nobody else clears away a process that lives.
  if (processes_.find(token) != nullptr) {
    clear_objects(token);
    header().processes[token_slot(token)].token.store(0, std::memory_order_release);
  }
}

std::uint32_t Registry::reap() {
  if (!lock_file()) {
    return 0;
  }
  const std::uint32_t count = reap_locked();
  unlock_file();
  return count;
}

std::uint32_t Registry::reap_locked() {
  std::uint32_t count = 0;
  const auto self = static_cast<std::uint32_t>(::getpid());
  for (ProcessRecord& record : header().processes) {
    const std::uint32_t token = record.token.load(std::memory_order_acquire);
    if (token == 0) {
      continue;
    }
    // A record of this very process that this image knows nothing of was made before an exec.
    const auto& ours = tokens_of_this_image();
    const bool replaced =
        record.pid == self && std::find(ours.begin(), ours.end(), token) == ours.end();
    if (replaced || processes_.liveness(token) == Liveness::Dead) {
      clear_objects(token);
      record.token.store(0, std::memory_order_release);
      ++count;
    }
  }
  return count;
}

namespace {

/// Runs `clear(slot)` for every slot in a chunk that belongs to `token`, then frees the chunk.
template <typename Chunks, typename Clear>
void clear_chunks(Chunks& chunks, std::uint32_t chunk_size, std::uint32_t token, Clear&& clear) {
  for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
    if (chunks[chunk].load(std::memory_order_acquire) != token) {
      continue;
    }
    for (std::uint32_t i = 0; i < chunk_size; ++i) {
      clear(chunk * chunk_size + i);
    }
    chunks[chunk].store(0, std::memory_order_release);
  }
}

}  // namespace

void Registry::clear_objects(std::uint32_t token) {
  RegistryHeader& head = header();
  const std::uint32_t top = std::min(head.attachments_top.load(), kMaxAttachments);
  for (std::uint32_t slot = 0; slot < top; ++slot) {
    std::uint32_t owner = token;
    attachment(slot).owner.compare_exchange_strong(owner, 0);
  }
  clear_chunks(head.qp_chunks, kQpChunk, token, [&](std::uint32_t slot) {
    QpRecord& record = qp(slot);
    if (record.owner.load() == token) {
      release_qpn(record.hca, record.qpn, slot);
      record.generation.fetch_add(1);
      record.state.store(IBV_QPS_RESET);
      record.owner.store(0);
    }
  });
  clear_chunks(head.cq_chunks, kCqChunk, token, [&](std::uint32_t slot) {
    if (cq(slot).owner.load() == token) {
      cq(slot).generation.fetch_add(1);
      cq(slot).owner.store(0);
    }
  });
  clear_chunks(head.srq_chunks, kSrqChunk, token, [&](std::uint32_t slot) {
    if (srq(slot).owner.load() == token) {
      srq(slot).generation.fetch_add(1);
      srq(slot).owner.store(0);
    }
  });
  clear_chunks(head.mr_chunks, kMrChunk, token, [&](std::uint32_t slot) {
    if (mr(slot).owner.load() == token) {
      mr(slot).key.store(0);
      mr(slot).owner.store(0);
    }
  });
  const std::uint32_t used_blocks = std::min(head.arena_top.load(), kArenaBlocks);
  for (std::uint64_t block = 0; block < used_blocks; ++block) {
    if (head.arena_blocks[block].load() == token) {
      empty_pages(kArena + block * kArenaBlock, kArenaBlock);
      head.arena_blocks[block].store(0);
    }
  }
  clear_chunks(head.channel_chunks, kChannelChunk, token, [&](std::uint32_t slot) {
    ChannelRecord& record = channel(slot);
    // The FIFO is older than the entry of its owner, and a process may have died between the two.
    ::unlink(channel_path({slot, record.generation.load()}).c_str());
    if (record.owner.load() == token) {
      record.owner.store(0);
    }
  });
}

std::atomic<std::uint32_t>& Registry::qpn_entry(std::uint32_t hca, std::uint32_t qpn) const {
  return at<QpnIndex>(kQpnTable)[hca][qpn % kQpnIndexSize];
}

std::uint32_t Registry::assign_qpn(std::uint32_t hca, std::uint32_t qp_slot) {
  if (hca >= kMaxHcas) {
    return 0;
  }
  std::atomic<std::uint32_t>& next = header().next_qpn[hca];
  for (std::uint32_t tries = 0; tries < 2 * kQpnIndexSize; ++tries) {
    const std::uint32_t qpn = (kFirstQpn + next.fetch_add(1)) & kQpnMask;
    if (qpn < kFirstQpn || qpn == kMulticastQpn) {
      continue;
    }
    // First the record: who dies right behind the entry leaves a record that leads to it.
    qp(qp_slot).qpn = qpn;
    std::uint32_t free = 0;
    if (qpn_entry(hca, qpn).compare_exchange_strong(free, qp_slot + 1)) {
      return qpn;
    }
  }
  qp(qp_slot).qpn = 0;
  return 0;
}

void Registry::release_qpn(std::uint32_t hca, std::uint32_t qpn, std::uint32_t qp_slot) {
  if (hca < kMaxHcas) {
    std::uint32_t mine = qp_slot + 1;
    qpn_entry(hca, qpn).compare_exchange_strong(mine, 0);
  }
}

namespace {

/// Runs preadv or pwritev over a list until all is done. The kernel checks both sides.
bool transfer(long call, int fd, std::uint64_t place, SegmentList list) {
  if (place > kRegistrySize || list.total() > kRegistrySize - place) {
    return false;
  }
  while (list.total() > 0) {
    IoVectors vectors;
    const unsigned long count = fill(list, vectors);
    const long moved = ::syscall(call, fd, vectors.data(), count, place, 0UL);
    if (moved <= 0) {
      if (moved < 0 && errno == EINTR) {
        continue;
      }
      return false;
    }
    place += static_cast<std::uint64_t>(moved);
    list = list.skip(static_cast<std::uint64_t>(moved));
  }
  return true;
}

}  // namespace

bool Registry::copy_into(std::uint64_t place, const SegmentList& from) const {
  return transfer(SYS_pwritev, fd_, place, from);
}

bool Registry::copy_out_of(std::uint64_t place, const SegmentList& to) const {
  return transfer(SYS_preadv, fd_, place, to);
}

std::uint32_t Registry::count_qps(std::uint32_t hca) const {
  std::uint32_t found = 0;
  const auto& chunks = header().qp_chunks;
  for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
    if (chunks[chunk].load(std::memory_order_acquire) == 0) {
      continue;
    }
    for (std::uint32_t i = 0; i < kQpChunk; ++i) {
      const QpRecord& record = qp(chunk * kQpChunk + i);
      found += record.owner.load(std::memory_order_acquire) != 0 && record.hca == hca ? 1U : 0U;
    }
  }
  return found;
}

std::uint32_t Registry::find_qp(std::uint32_t hca, std::uint32_t qpn) const {
  if (hca >= kMaxHcas) {
    return kNone;
  }
  const std::uint32_t entry = qpn_entry(hca, qpn).load(std::memory_order_acquire);
  return entry == 0 || entry > kMaxQps ? kNone : entry - 1;
}

std::string Registry::channel_path(ChannelName name) const {
  return dir_ + "/" + kEventsDir + "/" + std::to_string(name.slot) + "-" +
         std::to_string(name.generation);
}

}  // namespace softhca::hca
