// SPDX-License-Identifier: BSD-3-Clause
// A few ibsim slots that serve the ports of all hosts. ibsim gives the answer to a request only to
// a client at the port whose LID the request came from, so a slot is moved to the port that wants
// to ask, stays there while an answer is awaited, and is then free to move on.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "softhca/agent/ibsim_slot.hpp"
#include "softhca/fabric/fabric_view.hpp"

namespace softhca {

using Clock = std::chrono::steady_clock;

/// Not thread-safe.
class SlotPool {
 public:
  struct Slot {
    std::unique_ptr<IbsimSlot> link;
    std::map<std::uint32_t, Clock::time_point> awaited;  // transaction -> when it was sent
    Clock::time_point used{};
    Clock::time_point broken_until{};
    PortIndex owner = kNoPort;  // a slot of a subnet manager: its port
    bool is_sm = false;         // what ibsim was told last
  };

  /// A slot is taken away from a port whose answers are this old when another port wants it; the
  /// requester's own retry asks again.
  static constexpr std::chrono::milliseconds kHold{150};
  static constexpr std::size_t kMaxAwaited = 8;
  static constexpr std::size_t kMaxAwaitedOwn = 64;

  SlotPool(std::string base, SlotJournal* journal, std::size_t size)
      : base_(std::move(base)), journal_(journal), slots_(size), movable_(size) {}

  /// A slot at the node of `port` that can take one more request now; nullptr when all are busy
  /// (then `wait` is set: ask again when something was answered or after kHold) or when none can be
  /// attached there (`wait` false). With `may_move` false only a slot that is there already will
  /// do.
  Slot* acquire(const FabricView& view, PortIndex port, Clock::time_point now, bool may_move,
                bool& wait);

  /// Gives `port` a slot of its own, which does not move, or takes it back. Such a slot gets the
  /// requests that ibsim has for the port while `is_sm` was set at it. False, with a line in the
  /// log, when ibsim refuses.
  bool keep_slot(const FabricView& view, PortIndex port, Clock::time_point now);
  void release_slot(PortIndex port);

  /// Says at a port's own slot, if it has one, whether the port's IsSM bit is set.
  void set_is_sm(const FabricView& view, PortIndex port, bool is_sm);

  /// The slot that stays at the node of `port`; nullptr when there is none.
  Slot* own_slot(const FabricView& view, PortIndex port);

  /// Forgets an awaited answer, wherever it is awaited.
  void forget(std::uint32_t transaction);

  std::deque<Slot>& slots() { return slots_; }

 private:
  bool move(Slot& slot, const FabricView& view, PortIndex port, Clock::time_point now);

  std::string base_;
  SlotJournal* journal_;
  std::deque<Slot> slots_;  // the first `movable_` move
  std::size_t movable_;
  std::map<std::uint64_t, std::string> names_;  // node GUID -> name under which ibsim knows it
};

}  // namespace softhca
