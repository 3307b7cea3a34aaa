// SPDX-License-Identifier: BSD-3-Clause
// The one thread a process has for work that cannot be done at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace softhca::hca {

/// Something that has to be tried again later.
class PendingTask {
 public:
  /// Tries. Returns when to try next (CLOCK_MONOTONIC, ns), nullopt when there is nothing left to
  /// do. Called from the worker's thread.
  virtual std::optional<std::uint64_t> progress(std::uint64_t now) = 0;

 protected:
  ~PendingTask() = default;
};

/// Runs tasks when they are due. The thread starts with the first task and sleeps while there is
/// none. Any thread may call the methods, but not while it holds a lock that progress() takes.
class PendingWorker {
 public:
  PendingWorker() = default;
  PendingWorker(const PendingWorker&) = delete;
  PendingWorker& operator=(const PendingWorker&) = delete;
  ~PendingWorker() { stop(); }

  /// Has `task` tried at `when` at the latest. May be called while holding the task's own lock.
  void schedule(PendingTask& task, std::uint64_t when);

  /// After this the worker does not touch `task` any more. Waits for a try that is under way.
  void forget(PendingTask& task);

  /// Ends the thread. Tasks that are left are not tried any more.
  void stop();

 private:
  struct Item {
    PendingTask* task;
    std::uint64_t when;
  };

  void run();
  void put(PendingTask& task, std::uint64_t when);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<Item> items_;
  PendingTask* current_ = nullptr;
  bool current_forgotten_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace softhca::hca
