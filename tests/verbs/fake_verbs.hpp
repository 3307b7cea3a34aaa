// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "verbs/ops.hpp"

namespace wireup::verbs {

/// A libibverbs in memory: counts what lives, and can fail any one call. One at a time, since the
/// table's functions have no other place for their state.
class FakeVerbs {
 public:
  struct Port {
    ibv_port_state state = IBV_PORT_ACTIVE;
    std::uint8_t link_layer = IBV_LINK_LAYER_INFINIBAND;
    std::uint16_t lid = 5;
    std::vector<std::uint16_t> pkeys{0x7FFF, 0x8001};
  };
  struct Device {
    std::string name;
    std::vector<Port> ports;
  };

  FakeVerbs();
  ~FakeVerbs();
  FakeVerbs(const FakeVerbs&) = delete;
  FakeVerbs& operator=(const FakeVerbs&) = delete;

  [[nodiscard]] static const Ops& ops() noexcept;

  /// The `nth` call that can fail (from 1) fails with `error`; 0: none does. Restarts the count.
  void fail_call(std::uint64_t nth, int error);
  /// Every call of this name (a field of Ops) fails with `error`.
  void fail_every(const std::string& name, int error);
  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
  [[nodiscard]] const std::string& failed_call() const noexcept { return failed_call_; }
  /// Objects that were made and not destroyed, by kind.
  [[nodiscard]] std::size_t alive() const noexcept;
  /// The next completion of a receive gets this status instead of success.
  void spoil_next_receive(ibv_wc_status status) { next_receive_status = status; }

  /// For the table's functions: errno value to fail with, or 0.
  [[nodiscard]] int enter(const char* name);

  std::vector<Device> devices{{"fake0", {Port{}}}};
  std::map<std::string, std::size_t> live;
  std::vector<std::array<int, 2>> transitions;  // from, to
  ibv_wc_status next_receive_status = IBV_WC_SUCCESS;
  /// What the device has to say, and how much of it was taken and not acknowledged.
  std::deque<ibv_async_event> events;
  int unacknowledged = 0;
  /// Finished sends are not told, as by a real adapter for a while.
  bool holds_send_completions = false;

 private:
  std::uint64_t calls_ = 0;
  std::uint64_t failing_ = 0;
  int error_ = 0;
  std::string failed_call_;
  std::map<std::string, int> always_;
};

}  // namespace wireup::verbs
