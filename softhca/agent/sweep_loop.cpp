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
#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

constexpr std::chrono::seconds kBusyAfterChange{2};
constexpr std::chrono::milliseconds kReconnect{200};
constexpr int kSweepsForReregister = 20;
constexpr std::chrono::seconds kOrderPatience{5};
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
      first_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      shown_(writer_->published()) {
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

void SweepLoop::reregister(std::uint16_t lid) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    reregister_.push_back({lid, kSweepsForReregister});
    kicked_ = true;
  }
  wake_.notify_one();
}

bool SweepLoop::set(PortIndex port, std::uint16_t attr_id, std::uint32_t attr_mod,
                    std::function<void(SmpData&)> edit) {
  std::packaged_task<bool()> task([this, port, attr_id, attr_mod, edit = std::move(edit)] {
    const auto path = sweeper_ == nullptr ? std::nullopt : sweeper_->path_to(port);
    if (!path) {
      return false;
    }
    SmpReply now = client_->get(*path, attr_id, attr_mod);
    if (!now.ok) {
      return false;
    }
    edit(now.data);
    return client_->exchange({{*path, attr_id, attr_mod, now.data}}).front().ok;
  });
  std::future<bool> result = task.get_future();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    orders_.push_back(std::move(task));
    kicked_ = true;
  }
  wake_.notify_one();
  try {
    return result.wait_for(kOrderPatience) == std::future_status::ready && result.get();
  } catch (const std::future_error&) {
    return false;  // the loop ended first
  }
}

void SweepLoop::obey() {
  std::vector<std::packaged_task<bool()>> orders;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    orders.swap(orders_);
  }
  for (auto& order : orders) {
    order();
  }
}

void SweepLoop::set_guid(PortIndex port, std::uint32_t index, std::uint64_t guid) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    guids_[{port, index}] = guid;
    kicked_ = true;
  }
  wake_.notify_one();
}

FabricModel SweepLoop::with_guids(const FabricModel& model) {
  FabricModel shown = model;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [place, guid] : guids_) {
    const auto [index, slot] = place;
    if (index >= shown.ports.size() || slot >= kMaxGids || guid == 0) {
      continue;
    }
    PortRecord& port = shown.ports[index];
    put64(port.gids[slot], 0, port.subnet_prefix);
    put64(port.gids[slot], 8, guid);
    port.gid_count = std::max(port.gid_count, static_cast<std::uint16_t>(slot + 1));
  }
  return shown;
}

void SweepLoop::tell_reregister() {
  std::vector<Reregister> pending;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pending.swap(reregister_);
  }
  std::vector<Reregister> later;
  for (Reregister& order : pending) {
    bool found = false;
    for (PortIndex port = 0; port < shown_.ports.size() && !found; ++port) {
      // A port that is not ACTIVE has no clients yet that could have registered.
      found = shown_.ports[port].present != 0 && shown_.ports[port].lid == order.lid &&
              shown_.ports[port].state == kPortActive;
      if (found && options_.reregister) {
        options_.reregister(shown_, port);
      }
    }
    if (!found && --order.sweeps_left > 0) {
      later.push_back(order);
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  reregister_.insert(reregister_.end(), later.begin(), later.end());
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
  FabricModel model = with_guids(sweeper_->model());
  if (!writer_->publish(model)) {
    log_limited("cannot publish the fabric: %s",
                errno == ENOSPC ? "it is larger than the image can hold" : std::strerror(errno));
    return;
  }
  if (writer_->generation() != before) {
    busy_until_ = Clock::now() + kBusyAfterChange;
    if (options_.changed) {
      options_.changed(shown_, model);
    }
    shown_ = std::move(model);
  }
  if (!published_) {
    published_ = true;
    signal_fd(first_fd_);
  }
  tell_reregister();
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
      obey();
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
