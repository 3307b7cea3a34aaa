// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/sweep_loop.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "softhca/agent/log.hpp"
#include "softhca/agent/smp_client.hpp"
#include "softhca/agent/sweep.hpp"

namespace softhca {
namespace {

constexpr std::chrono::seconds kBusyAfterChange{2};
constexpr std::chrono::milliseconds kReconnect{200};
// This thread works at most one part in so many of the time: while something changes, and when
// nothing does. Time of the processor, not of the clock, or a loaded machine would see changes
// late.
constexpr int kBusyShare = 6;
constexpr int kCalmShare = 50;

std::chrono::nanoseconds thread_time() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

void signal_fd(int fd) {
  const std::uint64_t one = 1;
  static_cast<void>(write(fd, &one, sizeof one));
}

}  // namespace

SweepLoop::SweepLoop(SweepOptions options, std::unique_ptr<FabricWriter> writer, bool same_fabric)
    : options_(std::move(options)),
      writer_(std::move(writer)),
      same_fabric_(same_fabric),
      first_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread_ = std::thread([this] { run(); });
}

SweepLoop::~SweepLoop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
  close(first_fd_);
}

void SweepLoop::kick() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    kicked_ = true;
  }
  wake_.notify_one();
}

bool SweepLoop::connect() {
  if (slot_ == nullptr) {
    slot_ = IbsimSlot::open(options_.ibsim_base, options_.journal);
  }
  if (slot_ == nullptr || !slot_->attach(options_.sim_host)) {
    log_limited(
        "cannot attach to ibsim \"%s\" at node \"%s\": %s; trying again",
        options_.ibsim_base.c_str(), options_.sim_host.c_str(),
        errno == ENOSPC ? "no such node, or all 10 client slots are taken" : std::strerror(errno));
    slot_.reset();
    return false;
  }
  log_line("walking from node \"%s\" (%016llx), ibsim slot %u", slot_->node_id().c_str(),
           static_cast<unsigned long long>(slot_->node_guid()), slot_->slot());
  client_ = std::make_unique<SmpClient>(*slot_);
  sweeper_ = std::make_unique<Sweeper>(*client_, writer_->published(), same_fabric_);
  same_fabric_ = true;
  return true;
}

void SweepLoop::sweep_once() {
  const bool complete = sweeper_->sweep();
  if (!complete && !published_) {
    return;  // nothing is known yet, and nothing is better than half of it
  }
  const std::uint64_t before = writer_->generation();
  if (!writer_->publish(sweeper_->model())) {
    log_limited("cannot publish the fabric: %s",
                errno == ENOSPC ? "it is larger than the image can hold" : std::strerror(errno));
    return;
  }
  if (writer_->generation() != before) {
    busy_until_ = Clock::now() + kBusyAfterChange;
  }
  if (!published_) {
    published_ = true;
    signal_fd(first_fd_);
  }
}

std::chrono::milliseconds SweepLoop::pause(std::chrono::nanoseconds cost) {
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(cost);
  if (Clock::now() < busy_until_) {
    return std::clamp(milliseconds * kBusyShare, options_.busy, options_.calm);
  }
  // Without a subnet manager ports stay INIT for ever; watch for it a little more closely.
  const auto calm = sweeper_->settling() ? options_.calm / 3 : options_.calm;
  return std::clamp(milliseconds * kCalmShare, calm, options_.calm * 2);
}

void SweepLoop::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (kicked_) {
      kicked_ = false;
      busy_until_ = Clock::now() + kBusyAfterChange;
    }
    lock.unlock();
    std::chrono::milliseconds wait = kReconnect;
    if (sweeper_ != nullptr || connect()) {
      const std::chrono::nanoseconds start = thread_time();
      sweep_once();
      wait = pause(thread_time() - start);
      if (!client_->alive()) {
        log_limited("ibsim does not answer any more; trying again");
        sweeper_.reset();
        client_.reset();
        slot_.reset();
        wait = kReconnect;
      }
    }
    lock.lock();
    wake_.wait_for(lock, wait, [this] { return stop_ || kicked_; });
  }
}

}  // namespace softhca
