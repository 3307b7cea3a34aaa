// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/cm.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/ids.hpp"
#include "cm/engine/types.hpp"
#include "cm/libibcm/qp_attr.hpp"

namespace wireup::cm::ibcm {

struct Side;

/// What outlives a device that is closed before its ids and events are: programs do that.
struct Shared {
  std::mutex mutex;
  /// An event was acknowledged.
  std::condition_variable acked;
  bool is_closed = false;
};

/// A program's cm_id. Under the device's lock, but for `context`, which is the program's.
struct CmId : ib_cm_id {
  std::shared_ptr<Shared> shared;
  bool is_listening = false;
  ServiceId service_id;
  std::uint64_t service_mask = 0;
  /// The port of the connection or resolution; it stays with the device.
  Side* side = nullptr;
  /// At most one of the two.
  std::optional<Handle> connection;
  std::optional<ResolutionId> resolution;
  CommId local_id;
  CommId remote_id;

  QpFacts facts;
  /// Of the LAP under way: ours, or the peer's with what it replaced.
  std::optional<LocalPath> proposed;
  std::optional<LocalPath> replaced;
  /// The queue pair is in RTS for good; what may still change is its alternate path.
  bool rearms = false;
  /// The program said that the connection is established.
  bool is_notified = false;

  /// Handed out and not acknowledged.
  unsigned unacked = 0;

  [[nodiscard]] bool is_idle() const noexcept {
    return !is_listening && !connection.has_value() && !resolution.has_value();
  }
};

/// A program's event with all that it points to.
struct EventBox : ib_cm_event {
  /// As much as 1.0.5 had for every event, so that reading further than a message goes is no harm.
  static constexpr std::size_t kRoom = 255;

  EventBox(ib_cm_event_type type, CmId& id, CmId& counted) : ib_cm_event{}, owner(&counted) {
    cm_id = &id;
    event = type;
  }

  /// Whose acknowledgement it needs: the listener's for what brings a new id.
  CmId* owner;
  std::shared_ptr<Shared> shared = owner->shared;
  std::size_t private_size = 0;
  std::array<std::uint8_t, kRoom> private_bytes{};
  std::array<std::uint8_t, kRoom> info_bytes{};
  ibv_sa_path_rec primary_path{};
  ibv_sa_path_rec alternate_path{};
};

}  // namespace wireup::cm::ibcm
