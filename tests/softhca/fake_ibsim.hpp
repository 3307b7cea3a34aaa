// SPDX-License-Identifier: BSD-3-Clause
// As much of ibsim as the agent's relay needs, in a thread: client slots at nodes, and a subnet
// administrator that answers at the port a request came from.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace softhca_test {

class FakeIbsim {
 public:
  struct Node {
    std::uint64_t guid = 0;
    std::uint16_t lid = 0;
  };

  /// Serves the socket base name `base`; `nodes` by the name under which a client asks for them.
  FakeIbsim(std::string base, std::map<std::string, Node> nodes);
  FakeIbsim(const FakeIbsim&) = delete;
  FakeIbsim& operator=(const FakeIbsim&) = delete;
  ~FakeIbsim();

  /// Of the next requests, so many get no answer.
  void lose(int count) { lose_ = count; }

  /// LIDs of the ports that requests came from, in order.
  std::vector<std::uint16_t> requesters();

 private:
  static constexpr std::size_t kSlots = 10;
  struct Slot {
    int fd = -1;
    bool used = false;
    std::string peer;
    Node node;
  };

  void run();
  void serve_control();
  void serve_slot(std::size_t index);

  std::string base_;
  std::map<std::string, Node> nodes_;
  int control_ = -1;
  int stop_[2] = {-1, -1};
  std::array<Slot, kSlots> slots_;
  std::atomic<int> lose_{0};
  std::mutex mutex_;
  std::vector<std::uint16_t> requesters_;
  std::thread thread_;
};

}  // namespace softhca_test
