// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/faults.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "softhca/hca/random.hpp"

namespace softhca::hca {
namespace {

constexpr std::uint64_t kFaultsMagic = 0x736f6674'666c7431;  // "softflt1"

}  // namespace

struct FaultsFile {
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint32_t> enabled;
  std::atomic<std::uint32_t> drop_ppm;
  std::atomic<std::uint32_t> duplicate_ppm;
  std::atomic<std::uint32_t> reorder_ppm;
  std::atomic<std::uint64_t> seed;
  std::atomic<std::uint64_t> drawn;
  std::atomic<std::uint32_t> asynchronous;
  std::atomic<std::uint32_t> longest_us;
  std::atomic<std::uint64_t> asynchrony_seed;
};

UdFate draw_fate(const UdFaultSettings& settings, std::uint64_t n) {
  const std::uint64_t base = mix(settings.seed) ^ mix(n);
  UdFate fate;
  fate.drop = happens(settings.drop_ppm, mix(base + 1));
  if (!fate.drop) {
    fate.duplicate = happens(settings.duplicate_ppm, mix(base + 2));
    fate.hold_back = happens(settings.reorder_ppm, mix(base + 3));
  }
  return fate;
}

std::unique_ptr<Faults> Faults::attach(const char* dir) {
  struct stat info {};
  if (::stat(dir, &info) != 0) {
    return nullptr;
  }
  const std::string path = std::string(dir) + "/" + kFaultsFile;
  const mode_t mode = info.st_mode & 0666;
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd >= 0) {
    ::fchmod(fd, mode);
  } else if (errno == EEXIST) {
    fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  if (fd < 0) {
    return nullptr;
  }
  // All zero is the state without faults, so there is nothing to initialise and no race about it.
  void* mapped = MAP_FAILED;
  if (::ftruncate(fd, 4096) == 0) {
    mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int error = errno;
  ::close(fd);
  if (mapped == MAP_FAILED) {
    errno = error;
    return nullptr;
  }
  auto* file = static_cast<FaultsFile*>(mapped);
  std::uint64_t empty = 0;
  if (!file->magic.compare_exchange_strong(empty, kFaultsMagic) && empty != kFaultsMagic) {
    ::munmap(mapped, 4096);
    errno = EPROTO;
    return nullptr;
  }
  return std::unique_ptr<Faults>(new Faults(file));
}

Faults::~Faults() {
  ::munmap(file_, 4096);
}

UdFate Faults::next_fate() {
  if (file_->enabled.load(std::memory_order_acquire) == 0) {
    return {};
  }
  return draw_fate(settings(), file_->drawn.fetch_add(1, std::memory_order_relaxed));
}

void Faults::set(const UdFaultSettings& settings) {
  file_->enabled.store(0);
  file_->drop_ppm.store(settings.drop_ppm);
  file_->duplicate_ppm.store(settings.duplicate_ppm);
  file_->reorder_ppm.store(settings.reorder_ppm);
  file_->seed.store(settings.seed);
  file_->drawn.store(0);
  const bool any = settings.drop_ppm + settings.duplicate_ppm + settings.reorder_ppm != 0;
  file_->enabled.store(any ? 1 : 0, std::memory_order_release);
}

Asynchrony Faults::asynchrony() const {
  if (file_->asynchronous.load(std::memory_order_acquire) == 0) {
    return {};
  }
  return {true, file_->longest_us.load(std::memory_order_relaxed),
          file_->asynchrony_seed.load(std::memory_order_relaxed)};
}

void Faults::set_asynchrony(const Asynchrony& mode) {
  file_->asynchronous.store(0);
  file_->longest_us.store(mode.longest_us);
  file_->asynchrony_seed.store(mode.seed);
  file_->asynchronous.store(mode.on ? 1 : 0, std::memory_order_release);
}

UdFaultSettings Faults::settings() const {
  return {file_->drop_ppm.load(), file_->duplicate_ppm.load(), file_->reorder_ppm.load(),
          file_->seed.load()};
}

}  // namespace softhca::hca
