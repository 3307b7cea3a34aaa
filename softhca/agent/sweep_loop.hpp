// SPDX-License-Identifier: BSD-3-Clause
// The thread that keeps the fabric image fresh: often while something changes, rarely otherwise.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "softhca/agent/slot_journal.hpp"
#include "softhca/agent/slot_pool.hpp"
#include "softhca/fabric/fabric_writer.hpp"
#include "softhca/mad/smp.hpp"

namespace softhca {

struct SweepOptions {
  std::string ibsim_base;
  std::string sim_host;  // node the walk starts at; "" is ibsim's default
  SlotJournal* journal = nullptr;
  std::chrono::milliseconds busy{25};   // between sweeps just after a change
  std::chrono::milliseconds calm{250};  // between sweeps when nothing has changed for a while
  /// Called in the loop's thread when a port has been told to register again, and its image shows
  /// what else it was told.
  std::function<void(const FabricModel& model, PortIndex port)> reregister;
  /// Called in the loop's thread after an image that differs from the last one was published.
  std::function<void(const FabricModel& before, const FabricModel& after)> changed;
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

  /// Reads an attribute of an HCA port, lets `edit` change it and writes it back, as a subnet
  /// manager would. Waits for the loop's thread; any other thread. False: no such port now, or it
  /// refuses.
  bool set(PortIndex port, std::uint16_t attr_id, std::uint32_t attr_mod,
           std::function<void(SmpData&)> edit);

  /// From now on the port shows this GUID in its GUID table, 0: what its node says. ibsim's nodes
  /// have no such table to write to. Any thread.
  void set_guid(PortIndex port, std::uint32_t index, std::uint64_t guid);

  /// A subnet manager has told the port with this LID that its client must register again. Any
  /// thread.
  void reregister(std::uint16_t lid);

  /// Readable (an eventfd) once the first complete sweep is published.
  [[nodiscard]] int first_sweep_fd() const { return first_fd_; }

 private:
  struct Reregister {
    std::uint16_t lid = 0;
    int sweeps_left = 0;  // how often to look for the port that has this LID
  };

  void run();
  void tell_reregister();
  void obey();
  [[nodiscard]] FabricModel with_guids(const FabricModel& model);
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
  FabricModel shown_;  // what readers see
  Clock::time_point busy_until_{};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  bool kicked_ = false;
  std::vector<Reregister> reregister_;  // these three guarded by mutex_
  std::vector<std::packaged_task<bool()>> orders_;
  std::map<std::pair<PortIndex, std::uint32_t>, std::uint64_t> guids_;
  std::thread thread_;
};

}  // namespace softhca
