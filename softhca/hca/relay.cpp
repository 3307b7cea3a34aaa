// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/relay.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <system_error>

#include "softhca/hca/clock.hpp"
#include "softhca/hca/robust_lock.hpp"
#include "softhca/hca/worker_thread.hpp"

namespace softhca::hca {
namespace {

using Phase = RelayRecord::Phase;
using Result = RelayRecord::Result;

constexpr std::uint32_t kPhaseMask = 3;
constexpr std::uint32_t kNextRequest = 4;

constexpr std::uint64_t kLookAgainNs = 20'000'000;  // whether the other process still runs
constexpr std::uint64_t kPatienceNs = 1'000'000'000;
constexpr std::uint64_t kIdleNs = 60'000'000'000;

Phase phase_of(std::uint32_t word) {
  return static_cast<Phase>(word & kPhaseMask);
}

std::uint32_t with_phase(std::uint32_t word, Phase phase) {
  return (word & ~kPhaseMask) | static_cast<std::uint32_t>(phase);
}

template <typename Word>
void wait_while(std::atomic<Word>& word, Word value, std::uint64_t ns) {
  static_assert(sizeof word == 4);
  const timespec limit{static_cast<time_t>(ns / 1'000'000'000),
                       static_cast<long>(ns % 1'000'000'000)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

template <typename Word>
void wake(std::atomic<Word>& word) {
  constexpr int kEverybody = 0x7FFFFFFF;
  ::syscall(SYS_futex, &word, FUTEX_WAKE, kEverybody, nullptr, nullptr, 0);
}

/// Has the process of `token` serve. Denied when it does not offer to, or has no block for it.
CopyResult call(ProcessRecord& process, const ProcessTable& processes, std::uint32_t token) {
  const std::uint64_t end = monotonic_ns() + kPatienceNs;
  RelayState state = RelayState::Offered;
  if (process.relay_state.compare_exchange_strong(state, RelayState::Called)) {
    wake(process.relay_state);
  }
  while ((state = process.relay_state.load(std::memory_order_acquire)) == RelayState::Called) {
    if (monotonic_ns() >= end || processes.liveness(token) != Liveness::Alive) {
      return CopyResult::Gone;
    }
    wait_while(process.relay_state, RelayState::Called, kLookAgainNs);
  }
  return state == RelayState::Serving ? CopyResult::Ok : CopyResult::Denied;
}

/// Makes room in the record for a request of ours: one that its client has given up, or died over,
/// may still be in it. Returns the word of the new request, 0 when the relay does not come to it.
std::uint32_t take_over(RelayRecord& record, const ProcessTable& processes, std::uint32_t token) {
  const std::uint64_t end = monotonic_ns() + kPatienceNs;
  for (;;) {
    std::uint32_t word = record.phase.load(std::memory_order_acquire);
    if (phase_of(word) != Phase::Running) {
      const std::uint32_t idle = with_phase(word + kNextRequest, Phase::Idle);
      if (record.phase.compare_exchange_strong(word, idle, std::memory_order_acq_rel)) {
        return idle;
      }
      continue;
    }
    if (monotonic_ns() >= end || processes.liveness(token) != Liveness::Alive) {
      return 0;
    }
    wait_while(record.phase, word, kLookAgainNs);
  }
}

/// Hands the request in and waits for its end.
CopyResult await(RelayRecord& record, std::uint32_t idle, const ProcessTable& processes,
                 std::uint32_t token) {
  const std::uint32_t posted = with_phase(idle, Phase::Posted);
  const std::uint32_t done = with_phase(idle, Phase::Done);
  record.phase.store(posted, std::memory_order_release);
  wake(record.phase);
  const std::uint64_t end = monotonic_ns() + kPatienceNs;
  for (;;) {
    std::uint32_t word = record.phase.load(std::memory_order_acquire);
    if (word == done) {
      const auto result = static_cast<Result>(record.result.load(std::memory_order_relaxed));
      return result == Result::Ok ? CopyResult::Ok : CopyResult::RemoteFault;
    }
    if ((word & ~kPhaseMask) != (idle & ~kPhaseMask)) {
      return CopyResult::Gone;  // the relay has stopped, or another took us for dead
    }
    const Liveness owner = processes.liveness(token);
    if (owner == Liveness::Dead) {
      return CopyResult::Gone;
    }
    if (owner == Liveness::Stopped || monotonic_ns() >= end) {
      // What the relay has not begun, it is not to begin any more. What it has begun may still
      // arrive, as data of a request whose acknowledgement got lost.
      if (phase_of(word) != Phase::Posted ||
          record.phase.compare_exchange_strong(word, idle, std::memory_order_acq_rel)) {
        return CopyResult::Gone;
      }
      continue;
    }
    wait_while(record.phase, word, kLookAgainNs);
  }
}

CopyResult copy_chunk(const Registry& registry, std::uint64_t place, RelayRecord& record,
                      std::uint32_t token, bool write, const SegmentList& local,
                      const SegmentList& remote) {
  const std::uint32_t idle = take_over(record, registry.processes(), token);
  if (idle == 0) {
    return CopyResult::Gone;
  }
  const std::uint64_t data = place + offsetof(RelayRecord, data);
  if (write && !registry.copy_into(data, local)) {
    return CopyResult::LocalFault;
  }
  record.write = write ? 1 : 0;
  record.count = 0;
  for (const Segment& segment : remote.segments()) {
    record.segments[record.count++] = {segment.address, segment.length};
  }
  const CopyResult result = await(record, idle, registry.processes(), token);
  if (result == CopyResult::Ok && !write && !registry.copy_out_of(data, local)) {
    return CopyResult::LocalFault;
  }
  return result;
}

}  // namespace

void RegisteredMemory::add(std::uint64_t address, std::uint64_t length, bool writable) {
  const std::lock_guard lock(mutex_);
  ranges_.emplace(address, Range{address, length, writable});
}

void RegisteredMemory::remove(std::uint64_t address, std::uint64_t length, bool writable) {
  const std::lock_guard lock(mutex_);
  auto [at, end] = ranges_.equal_range(address);
  at = std::find_if(at, end, [&](const auto& entry) {
    return entry.second == Range{address, length, writable};
  });
  if (at != end) {
    ranges_.erase(at);
  }
}

bool RegisteredMemory::covers(const SegmentList& list, bool write) const {
  const auto covered = [&](const Segment& segment) {
    return std::any_of(ranges_.begin(), ranges_.upper_bound(segment.address),
                       [&](const auto& entry) {
                         const Range& range = entry.second;
                         const std::uint64_t offset = segment.address - range.address;
                         return (range.writable || !write) && offset <= range.length &&
                                segment.length <= range.length - offset;
                       });
  };
  return std::all_of(list.segments().begin(), list.segments().end(), covered);
}

std::atomic<RelayState>& Relay::state() const {
  return registry_->header().processes[token_slot(self_)].relay_state;
}

void Relay::offer() {
  std::call_once(begun_, [this] { begin(); });
}

void Relay::begin() {
  state().store(RelayState::Offered);
  try {
    thread_ = start_worker([this] { run(); });
  } catch (const std::system_error& error) {
    state().store(RelayState::None);
    std::fprintf(stderr,
                 "softhca: no thread to move data for processes that the kernel keeps from this "
                 "one's memory: %s\n",
                 error.what());
  }
}

void Relay::stop() {
  // Nothing is begun any more, and what another thread is beginning has begun.
  std::call_once(begun_, [] {});
  if (!thread_.joinable()) {
    return;
  }
  stopping_.store(true);
  state().store(RelayState::None);
  wake(state());
  if (RelayRecord* record = record_.load()) {
    record->phase.fetch_add(kNextRequest);
    wake(record->phase);
  }
  thread_.join();
}

void Relay::run() {
  pthread_setname_np(pthread_self(), "softhca-relay");
  while (wait_for_call()) {
    place_ = arena_->take(sizeof(RelayRecord));
    if (place_ != 0) {
      serve();
      return;
    }
    answer_call(RelayState::Offered);
  }
}

bool Relay::wait_for_call() {
  while (!stopping_.load()) {
    const RelayState now = state().load(std::memory_order_acquire);
    if (now == RelayState::Called) {
      return true;
    }
    wait_while(state(), now, kIdleNs);
  }
  return false;
}

void Relay::answer_call(RelayState answer) {
  RelayState expected = RelayState::Called;  // or stop() has come between
  state().compare_exchange_strong(expected, answer, std::memory_order_acq_rel);
  wake(state());
}

void Relay::serve() {
  auto& record = *reinterpret_cast<RelayRecord*>(registry_->ring(place_, 0, sizeof(RelayRecord)));
  record_.store(&record);  // before stopping_ is looked at: stop() does it the other way round
  record.client.value.store(0);
  record.phase.store(0);
  registry_->header().processes[token_slot(self_)].relay.store(place_);
  answer_call(RelayState::Serving);
  while (!stopping_.load()) {
    std::uint32_t word = record.phase.load(std::memory_order_acquire);
    const std::uint32_t running = with_phase(word, Phase::Running);
    if (phase_of(word) != Phase::Posted) {
      wait_while(record.phase, word, kIdleNs);
      continue;
    }
    if (!record.phase.compare_exchange_strong(word, running, std::memory_order_acq_rel)) {
      continue;
    }
    record.result.store(static_cast<std::uint32_t>(execute(record)), std::memory_order_relaxed);
    std::uint32_t expected = running;
    record.phase.compare_exchange_strong(expected, with_phase(running, Phase::Done),
                                         std::memory_order_acq_rel);
    wake(record.phase);
  }
}

Result Relay::execute(const RelayRecord& record) {
  // Anybody can have written this: it is read once and then believed only if it names memory that
  // the program has registered.
  SegmentList list;
  const std::uint32_t count = std::min(record.count, RelayRecord::kMaxSegments);
  const bool write = record.write != 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const RelayRecord::Segment segment = record.segments[i];
    if (segment.length > RelayRecord::kDataBytes - list.total()) {
      return Result::Fault;
    }
    list.add(segment.address, segment.length);
  }
  const std::uint64_t data = place_ + offsetof(RelayRecord, data);
  bool copied = false;
  const bool allowed = memory_->with(list, write, [&] {
    copied = write ? registry_->copy_out_of(data, list) : registry_->copy_into(data, list);
  });
  return allowed && copied ? Result::Ok : Result::Fault;
}

CopyResult copy_by_relay(const Registry& registry, std::uint32_t self, std::uint32_t token,
                         bool write, const SegmentList& local, const SegmentList& remote) {
  if (registry.processes().find(token) == nullptr) {
    return CopyResult::Gone;
  }
  ProcessRecord& owner = registry.header().processes[token_slot(token)];
  if (const CopyResult called = call(owner, registry.processes(), token);
      called != CopyResult::Ok) {
    return called;
  }
  const std::uint64_t place = owner.relay.load();
  auto& record = *reinterpret_cast<RelayRecord*>(registry.ring(place, 0, sizeof(RelayRecord)));
  const RobustGuard guard(record.client, registry.processes(), self);
  const std::uint64_t wanted = std::min(local.total(), remote.total());
  for (std::uint64_t done = 0; done < wanted;) {
    const std::uint64_t bytes = std::min(wanted - done, RelayRecord::kDataBytes);
    const CopyResult result =
        copy_chunk(registry, place, record, token, write, local.skip(done).first(bytes),
                   remote.skip(done).first(bytes));
    if (result != CopyResult::Ok) {
      return result;
    }
    done += bytes;
  }
  return CopyResult::Ok;
}

}  // namespace softhca::hca
