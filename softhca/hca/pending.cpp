// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/pending.hpp"

#include <algorithm>
#include <chrono>

#include "softhca/hca/clock.hpp"
#include "softhca/hca/worker_thread.hpp"

namespace softhca::hca {

void PendingWorker::put(PendingTask& task, std::uint64_t when) {
  for (Item& item : items_) {
    if (item.task == &task) {
      item.when = std::min(item.when, when);
      return;
    }
  }
  items_.push_back({&task, when});
}

void PendingWorker::schedule(PendingTask& task, std::uint64_t when) {
  const std::lock_guard lock(mutex_);
  if (stopping_) {
    return;
  }
  put(task, when);
  if (!thread_.joinable()) {
    thread_ = start_worker([this] { run(); });
  }
  wake_.notify_one();
}

void PendingWorker::forget(PendingTask& task) {
  std::unique_lock lock(mutex_);
  std::erase_if(items_, [&](const Item& item) { return item.task == &task; });
  if (current_ == &task) {
    current_forgotten_ = true;
    idle_.wait(lock, [&] { return current_ != &task; });
  }
}

void PendingWorker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void PendingWorker::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto due = std::min_element(items_.begin(), items_.end(),
                                      [](const Item& a, const Item& b) { return a.when < b.when; });
    if (due == items_.end()) {
      wake_.wait(lock);
      continue;
    }
    const std::uint64_t now = monotonic_ns();
    if (due->when > now) {
      wake_.wait_for(lock, std::chrono::nanoseconds(due->when - now));
      continue;
    }
    PendingTask* task = due->task;
    items_.erase(due);
    current_ = task;
    current_forgotten_ = false;
    lock.unlock();
    const auto next = task->progress(now);
    lock.lock();
    if (next && !current_forgotten_) {
      put(*task, *next);
    }
    current_ = nullptr;
    idle_.notify_all();
  }
}

}  // namespace softhca::hca
