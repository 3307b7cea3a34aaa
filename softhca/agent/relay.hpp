// SPDX-License-Identifier: BSD-3-Clause
// MADs that ibsim answers or carries: those of subnet management and of performance management.
// Here too the agent does the kernel's part: it finds the answers to requests by transaction id,
// repeats a request that got none, and tells its sender when time is up.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "softhca/agent/session.hpp"
#include "softhca/agent/slot_pool.hpp"
#include "softhca/fabric/counters.hpp"
#include "softhca/fabric/fabric_view.hpp"

namespace softhca {

/// True for the classes that go through ibsim; Gsi carries all others.
bool goes_through_ibsim(std::uint8_t mgmt_class);

/// Carries MADs between sessions and ibsim. A port where a process has registered for subnet
/// management requests, that is, a subnet manager, has an ibsim slot of its own, over which such
/// requests (traps, SMInfo) reach it. Not thread-safe.
class Relay {
 public:
  /// `reregister` is called with the LID of a port whose PortInfo a subnet manager has set with
  /// the ClientReregister bit.
  Relay(Sessions& sessions, const FabricView& view, Counters& counters, SlotPool& pool,
        std::function<void(std::uint16_t lid)> reregister)
      : sessions_(sessions),
        view_(view),
        counters_(counters),
        pool_(pool),
        reregister_(std::move(reregister)) {}

  /// A message a process sent: address and MAD. Anything malformed is dropped.
  void handle_send(Session& session, const UmadHeader& header, std::span<const std::uint8_t> mad,
                   Clock::time_point now);

  /// Something may have come in on the slots.
  void handle_slots(Clock::time_point now);

  /// Repeats and gives up what is due, and places what waits for a slot.
  void handle_time(Clock::time_point now);

  /// Drops everything of a session that ends.
  void forget_session(std::uint64_t session);

  /// When handle_time() is wanted next.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;

 private:
  struct Transaction {
    std::uint64_t session = 0;
    PortIndex port = kNoPort;
    UmadHeader header;
    Mad mad{};
    MadHeader mad_header;
    std::size_t length = 0;
    std::uint32_t tries_left = 0;
    Clock::time_point due{};
    bool answer_expected = false;
    bool queued = false;
    Clock::time_point queued_at{};
  };

  void send(std::uint32_t id, Clock::time_point now);
  void answer(const Session& session, const UmadHeader& header, const MadHeader& mad_header,
              std::span<const std::uint8_t> mad);
  void pump(Clock::time_point now);
  bool place(std::uint32_t id, Transaction& transaction, Clock::time_point now, bool may_move);
  void handle_packet(const SlotPool::Slot& slot, const SimPacket& packet);
  void handle_request(const SlotPool::Slot& slot, const MadHeader& header, const SimPacket& packet);
  void give_up(const Transaction& transaction);
  void erase(std::uint32_t id);

  Sessions& sessions_;
  const FabricView& view_;
  Counters& counters_;
  SlotPool& pool_;
  std::function<void(std::uint16_t)> reregister_;
  std::unordered_map<std::uint32_t, Transaction> transactions_;
  std::set<std::pair<Clock::time_point, std::uint32_t>> timers_;
  std::deque<std::uint32_t> queue_;  // waiting for a slot, in order
  std::optional<Clock::time_point> pump_at_;
  std::uint32_t next_id_ = 1;
};

}  // namespace softhca
