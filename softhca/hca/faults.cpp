// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/faults.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "softhca/fabric/random.hpp"

namespace softhca::hca {
namespace {

constexpr std::uint64_t kFaultsMagic = 0x736f6674'666c7432;  // "softflt2"

}  // namespace

/// A place for a rule. Whoever finds it Free takes it by Writing and publishes it as Live.
struct RuleSlot {
  enum : std::uint32_t { Free = 0, Writing = 1, Live = 2 };
  std::atomic<std::uint32_t> state;
  FaultRule rule;
  std::atomic<std::uint64_t> matched;
  std::atomic<std::uint64_t> hit;
};

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
  std::atomic<std::uint32_t> qkeys_restricted;
  std::atomic<std::uint32_t> kinds;  // bit k: there may be a rule of kind k
  std::array<RuleSlot, kMaxRules> rules;
};

namespace {

constexpr std::size_t kFaultsBytes = 1U << 16;
static_assert(sizeof(FaultsFile) <= kFaultsBytes);

constexpr std::uint32_t bit_of(RuleKind kind) {
  return 1U << (static_cast<std::uint32_t>(kind) & 31U);
}

}  // namespace

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
  if (::ftruncate(fd, kFaultsBytes) == 0) {
    mapped = ::mmap(nullptr, kFaultsBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
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
    ::munmap(mapped, kFaultsBytes);
    errno = EPROTO;
    return nullptr;
  }
  return std::unique_ptr<Faults>(new Faults(file));
}

Faults::~Faults() {
  ::munmap(file_, kFaultsBytes);
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

bool Faults::qkeys_restricted() const {
  return file_->qkeys_restricted.load(std::memory_order_relaxed) != 0;
}

void Faults::restrict_qkeys(bool on) {
  file_->qkeys_restricted.store(on ? 1 : 0);
}

bool Faults::add(const FaultRule& rule) {
  for (RuleSlot& slot : file_->rules) {
    std::uint32_t free = RuleSlot::Free;
    if (slot.state.compare_exchange_strong(free, RuleSlot::Writing)) {
      slot.rule = rule;
      slot.matched.store(0);
      slot.hit.store(0);
      slot.state.store(RuleSlot::Live, std::memory_order_release);
      file_->kinds.fetch_or(bit_of(rule.kind), std::memory_order_release);
      return true;
    }
  }
  return false;
}

void Faults::clear_rules() {
  file_->kinds.store(0);
  for (RuleSlot& slot : file_->rules) {
    slot.state.store(RuleSlot::Free, std::memory_order_release);
  }
}

std::vector<RuleReport> Faults::rules() const {
  std::vector<RuleReport> reports;
  for (const RuleSlot& slot : file_->rules) {
    if (slot.state.load(std::memory_order_acquire) == RuleSlot::Live) {
      reports.push_back({slot.rule, slot.matched.load(), slot.hit.load()});
    }
  }
  return reports;
}

bool Faults::has(RuleKind kind) const {
  return (file_->kinds.load(std::memory_order_acquire) & bit_of(kind)) != 0;
}

std::optional<FaultRule> Faults::look_up(RuleKind kind, const Traffic& traffic) {
  for (RuleSlot& slot : file_->rules) {
    if (slot.state.load(std::memory_order_acquire) != RuleSlot::Live || slot.rule.kind != kind) {
      continue;
    }
    FaultRule rule = slot.rule;
    if (!rule_matches(rule, traffic)) {
      continue;
    }
    rule.value = slot.matched.fetch_add(1, std::memory_order_relaxed) + 1;
    if (!rule_draws(rule, rule.value)) {
      continue;
    }
    if (slot.hit.fetch_add(1, std::memory_order_relaxed) < rule.count || rule.count == 0) {
      return rule;
    }
    slot.hit.fetch_sub(1, std::memory_order_relaxed);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Faults::limit(Limit what, PortIndex at) const {
  std::optional<std::uint64_t> lowest;
  if (!has(RuleKind::Limit)) {
    return lowest;
  }
  for (const RuleSlot& slot : file_->rules) {
    const Traffic here{.from = at, .what = static_cast<std::uint32_t>(what)};
    if (slot.state.load(std::memory_order_acquire) == RuleSlot::Live &&
        slot.rule.kind == RuleKind::Limit && rule_matches(slot.rule, here)) {
      lowest = std::min(lowest.value_or(slot.rule.value), slot.rule.value);
    }
  }
  return lowest;
}

UdFaultSettings Faults::settings() const {
  return {file_->drop_ppm.load(), file_->duplicate_ppm.load(), file_->reorder_ppm.load(),
          file_->seed.load()};
}

}  // namespace softhca::hca
