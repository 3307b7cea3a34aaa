// SPDX-License-Identifier: BSD-3-Clause
// The thread that keeps the fabric image fresh: often while something changes, rarely otherwise.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "softhca/agent/slot_journal.hpp"
#include "softhca/agent/slot_pool.hpp"
#include "softhca/fabric/fabric_writer.hpp"

namespace softhca {

struct SweepOptions {
  std::string ibsim_base;
  std::string sim_host;  // node the walk starts at; "" is ibsim's default
  SlotJournal* journal = nullptr;
  std::chrono::milliseconds busy{25};   // between sweeps just after a change
  std::chrono::milliseconds calm{250};  // between sweeps when nothing has changed for a while
};

class SweepLoop {
 public:
  /// Starts the thread. `same_fabric`: the published image is of the ibsim that runs now.
  SweepLoop(SweepOptions options, std::unique_ptr<FabricWriter> writer, bool same_fabric);
  SweepLoop(const SweepLoop&) = delete;
  SweepLoop& operator=(const SweepLoop&) = delete;
  /// Ends the thread.
  ~SweepLoop();

  /// Asks for a sweep now and frequent ones for a while after it. Any thread.
  void kick();

  /// Readable (an eventfd) once the first complete sweep is published.
  [[nodiscard]] int first_sweep_fd() const { return first_fd_; }

 private:
  void run();
  bool connect();
  void sweep_once();
  std::chrono::milliseconds pause(std::chrono::nanoseconds cost);

  SweepOptions options_;
  std::unique_ptr<FabricWriter> writer_;
  bool same_fabric_;
  int first_fd_;
  std::unique_ptr<IbsimSlot> slot_;
  std::unique_ptr<class SmpClient> client_;
  std::unique_ptr<class Sweeper> sweeper_;
  bool published_ = false;
  Clock::time_point busy_until_{};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  bool kicked_ = false;
  std::thread thread_;
};

}  // namespace softhca
