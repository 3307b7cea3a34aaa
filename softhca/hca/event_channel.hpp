// SPDX-License-Identifier: BSD-3-Clause
// Events between processes: a FIFO per completion channel and one per open context, so that the
// file descriptor a program polls is a real one and any process can wake it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "softhca/hca/registry.hpp"
#include "softhca/hca/slots.hpp"

namespace softhca::hca {

/// What an event record is about.
enum class EventTarget : std::uint32_t { Cq = 1, Qp = 2, Srq = 3, Port = 4 };

/// One event as it lies in a FIFO; smaller than PIPE_BUF, so it is written whole or not at all.
struct EventRecord {
  std::uint32_t type;  // ibv_event_type; unused for completion events
  EventTarget target;
  std::uint32_t slot;        // of the object, or the port number
  std::uint32_t generation;  // of the object
};
static_assert(sizeof(EventRecord) == 16);

/// Writes an event into a channel. False when the channel is gone or full. Any process, any thread.
bool send_event(const Registry& registry, ChannelName channel, const EventRecord& event);

/// Writes a port event (IBV_EVENT_LID_CHANGE, IBV_EVENT_PORT_ERR, …) into every context that has
/// the HCA open. `hca` is the index of the HCA in the fabric image. Returns how many were told.
/// The fabric agent calls this for what its sweep finds changed.
std::uint32_t send_port_event(const Registry& registry, std::uint32_t hca, std::uint8_t port_num,
                              ibv_event_type type);

/// The owner's end of a FIFO. The descriptor is blocking until the program says otherwise.
class EventChannel {
 public:
  /// nullptr with errno when no slot is free (ENOSPC) or the FIFO cannot be made.
  static std::unique_ptr<EventChannel> create(Registry& registry, SlotPool& slots,
                                              std::uint32_t token, ChannelKind kind,
                                              std::uint32_t hca);
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;
  ~EventChannel();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] ChannelName name() const { return name_; }

  /// Reads one event, blocking or not as the descriptor is set. nullopt with errno.
  std::optional<EventRecord> read() const;

  /// Takes out every unread event about an object that goes away, keeping the others in order.
  void drop_events_of(EventTarget target, std::uint32_t slot, std::uint32_t generation) const;

 private:
  EventChannel(Registry& registry, SlotPool& slots, ChannelName name, int fd)
      : registry_(&registry), slots_(&slots), name_(name), fd_(fd) {}

  Registry* registry_;
  SlotPool* slots_;
  ChannelName name_;
  int fd_;
};

}  // namespace softhca::hca
