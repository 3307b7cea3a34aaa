// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/runtime.hpp"

#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "softhca/hca/clock.hpp"
#include "softhca/hca/memory.hpp"
#include "softhca/hca/qp.hpp"

namespace softhca::hca {
namespace {

std::mutex instance_mutex;
std::atomic<Runtime*> the_instance{nullptr};

/// Every runtime ever made, so that none looks leaked: programs may use their objects until the
/// very end of the process.
std::vector<Runtime*>& all_runtimes() {
  static auto* runtimes = new std::vector<Runtime*>;
  return *runtimes;
}

void leave_at_exit() {
  Runtime* runtime = the_instance.exchange(nullptr);
  if (runtime != nullptr) {
    runtime->pending().stop();
    runtime->ud_wire().flush();
    runtime->memory().relay().stop();
    runtime->registry().leave(runtime->token());
  }
}

/// The child of a fork has the parent's mappings but is not the parent: it opens devices anew, and
/// what it inherited is left alone.
void start_anew_in_child() {
  the_instance.store(nullptr);
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
    number = monotonic_ns() ^ static_cast<std::uint64_t>(::getpid()) << 40;
  }
  return number;
}

}  // namespace

std::unique_ptr<Runtime> Runtime::open(const char* dir, const char* host) {
  auto runtime = std::unique_ptr<Runtime>(new Runtime);
  runtime->host_ = host;
  runtime->view_ = FabricView::attach(dir);
  if (!runtime->view_) {
    return nullptr;
  }
  runtime->registry_ = Registry::attach(dir);
  runtime->counters_ = Counters::attach(dir);
  runtime->faults_ = Faults::attach(dir);
  if (!runtime->registry_ || !runtime->counters_ || !runtime->faults_) {
    return nullptr;
  }
  runtime->nonce_ = random_number();
  runtime->token_ = runtime->registry_->enrol(&runtime->nonce_);
  if (runtime->token_ == 0) {
    return nullptr;
  }
  RegistryHeader& header = runtime->registry_->header();
  const std::uint32_t token = runtime->token_;
  runtime->arena_ = std::make_unique<RingArena>(*runtime->registry_, token);
  runtime->qp_slots_ = std::make_unique<SlotPool>(header.qp_chunks, kQpChunk, token);
  runtime->cq_slots_ = std::make_unique<SlotPool>(header.cq_chunks, kCqChunk, token);
  runtime->srq_slots_ = std::make_unique<SlotPool>(header.srq_chunks, kSrqChunk, token);
  runtime->mr_slots_ = std::make_unique<SlotPool>(header.mr_chunks, kMrChunk, token);
  runtime->channel_slots_ = std::make_unique<SlotPool>(header.channel_chunks, kChannelChunk, token);
  runtime->ports_ = std::make_unique<PortCache>(*runtime->view_);
  runtime->ud_wire_ = std::make_unique<UdWire>(*runtime);
  runtime->pending_ = std::make_unique<PendingWorker>();
  runtime->memory_ = std::make_unique<ProcessMemory>(*runtime->registry_, *runtime->arena_, token);
  runtime->memory_->probe();
  const auto hcas = runtime->view_->hcas_of(host);
  if (!hcas.empty() && !hcas.front().ports.empty()) {
    runtime->memlock_.look_at(*runtime->faults_, hcas.front().ports.front());
  }
  return runtime;
}

Runtime* Runtime::instance() {
  if (Runtime* runtime = the_instance.load(std::memory_order_acquire)) {
    return runtime;
  }
  const char* dir = std::getenv("SOFTHCA_DIR");
  const char* host = std::getenv("SOFTHCA_HOST");
  if (dir == nullptr || host == nullptr || *dir == '\0' || *host == '\0') {
    errno = ENODEV;
    return nullptr;
  }
  const std::lock_guard lock(instance_mutex);
  if (Runtime* runtime = the_instance.load(std::memory_order_acquire)) {
    return runtime;
  }
  auto runtime = open(dir, host);
  if (!runtime) {
    return nullptr;
  }
  static bool registered = false;
  if (!registered) {
    registered = true;
    pthread_atfork(nullptr, nullptr, start_anew_in_child);
    std::atexit(leave_at_exit);
  }
  all_runtimes().push_back(runtime.get());
  the_instance.store(runtime.get(), std::memory_order_release);
  return runtime.release();
}

Runtime::~Runtime() {
  if (pending_) {
    pending_->stop();
  }
  if (ud_wire_) {
    ud_wire_->flush();
  }
  if (memory_) {
    memory_->relay().stop();
  }
  if (token_ != 0) {
    registry_->leave(token_);
  }
}

std::uint32_t Runtime::take_slot(SlotPool& pool) {
  auto slot = pool.take();
  if (!slot && registry_->reap() > 0) {
    slot = pool.take();
  }
  return slot.value_or(kNone);
}

std::uint32_t Runtime::living_pid(std::uint32_t token, Belief belief) {
  const ProcessRecord* record = registry_->processes().find(token);
  if (record == nullptr) {
    return 0;
  }
  const std::uint32_t pid = record->pid;
  if (token == token_) {
    return pid;
  }
  constexpr std::uint32_t kTickBits = 22;  // a tick is 2^22 ns = 4.2 ms
  const auto tick = static_cast<std::uint32_t>(coarse_monotonic_ns() >> kTickBits);
  std::atomic<std::uint64_t>& verified = verified_[token_slot(token)];
  const std::uint64_t seen = verified.load(std::memory_order_relaxed);
  if (static_cast<std::uint32_t>(seen >> 32) == token &&
      tick - static_cast<std::uint32_t>(seen) < static_cast<std::uint32_t>(belief)) {
    return pid;
  }
  // The pid may have gone to another process, and the process may have become another program.
  const auto status = read_process_status(pid);
  if (!status || status->start_time != record->start_time) {
    return 0;
  }
  std::uint64_t nonce = 0;
  SegmentList here;
  SegmentList there;
  here.add(reinterpret_cast<std::uint64_t>(&nonce), sizeof nonce);
  there.add(record->probe, sizeof nonce);
  switch (read_from_process(pid, here, there)) {
    case CopyResult::Ok:
      if (nonce != record->nonce) {
        return 0;
      }
      break;
    case CopyResult::Denied:
      break;  // it is alive, as far as one can tell
    case CopyResult::LocalFault:
    case CopyResult::RemoteFault:
    case CopyResult::Gone:
      return 0;
  }
  verified.store(std::uint64_t{token} << 32 | tick, std::memory_order_relaxed);
  return pid;
}

void Runtime::add_qp(Qp& qp) {
  const std::lock_guard lock(qps_mutex_);
  qps_.push_back(&qp);
}

void Runtime::remove_qp(Qp& qp) {
  const std::lock_guard lock(qps_mutex_);
  const auto at = std::find(qps_.begin(), qps_.end(), &qp);
  if (at != qps_.end()) {
    *at = qps_.back();
    qps_.pop_back();
  }
}

}  // namespace softhca::hca
