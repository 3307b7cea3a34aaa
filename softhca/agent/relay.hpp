// SPDX-License-Identifier: BSD-3-Clause
// What the kernel's MAD layer does for a port: sends MADs, finds the answers to requests by
// transaction id, repeats a request that got none, and tells its sender when time is up.
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

/// Carries MADs between sessions and ibsim, and between sessions of different ports. MADs of the
/// subnet management, subnet administration and performance classes go through ibsim; those of
/// other classes are handed to whoever registered for them at the destination port. Not
/// thread-safe.
class Relay {
 public:
  /// `joined` is called when the subnet administrator has granted a multicast join or leave.
  Relay(Sessions& sessions, const FabricView& view, Counters& counters, SlotPool& pool,
        std::function<void()> joined)
      : sessions_(sessions),
        view_(view),
        counters_(counters),
        pool_(pool),
        joined_(std::move(joined)) {}

  /// A message a process sent: header and MAD. Anything malformed is dropped.
  void handle_send(Session& session, std::span<const std::uint8_t> message, Clock::time_point now);

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
  void send_locally(std::uint32_t id, Transaction& transaction);
  void answer_locally(Session& session, const UmadHeader& header, const MadHeader& mad_header,
                      std::span<const std::uint8_t> mad);
  void count(const Transaction& transaction);
  void pump(Clock::time_point now);
  bool place(std::uint32_t id, Transaction& transaction, Clock::time_point now, bool may_move);
  void handle_packet(const SimPacket& packet);
  void give_up(const Transaction& transaction);
  void erase(std::uint32_t id);

  Sessions& sessions_;
  const FabricView& view_;
  Counters& counters_;
  SlotPool& pool_;
  std::function<void()> joined_;
  std::unordered_map<std::uint32_t, Transaction> transactions_;
  std::set<std::pair<Clock::time_point, std::uint32_t>> timers_;
  std::deque<std::uint32_t> queue_;  // waiting for a slot, in order
  std::optional<Clock::time_point> pump_at_;
  std::uint32_t next_id_ = 1;
};

}  // namespace softhca
