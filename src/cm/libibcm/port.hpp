// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cm/engine/types.hpp"

namespace wireup::cm::ibcm {

/// One port of a device: what carries its CM messages, and what paths from it need to know. Used by
/// one thread at a time. Tests have one without a fabric.
class Port {
 public:
  using OnMessage = std::function<void(const Address& from, std::span<const std::uint8_t> bytes)>;

  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  virtual ~Port() = default;

  /// A message that cannot be sent is lost, as one on the fabric would be.
  virtual void send(const Transmit& transmit) = 0;
  /// At most `max` messages that have come.
  virtual void poll(const OnMessage& on_message, std::size_t max) = 0;
  /// Readable while poll() has something to do. The port's own.
  [[nodiscard]] virtual int fd() const noexcept = 0;

  /// Counts from 1.
  [[nodiscard]] virtual std::uint8_t number() const noexcept = 0;
  /// Of the channel adapter.
  [[nodiscard]] virtual Guid node_guid() const noexcept = 0;
  [[nodiscard]] virtual IbTimeout ack_delay() const noexcept = 0;

  // As the port's tables are now.
  /// Nothing: the GID is not the port's.
  [[nodiscard]] virtual std::optional<std::uint8_t> gid_index(const Gid& gid) const = 0;
  [[nodiscard]] virtual std::optional<std::uint16_t> pkey_index(PKey pkey) const = 0;
  /// How far the LID is from the port's first one; nothing: it is not the port's.
  [[nodiscard]] virtual std::optional<std::uint8_t> path_bits(Lid lid) const = 0;
};

/// The InfiniBand ports of an open device, over QP1. Errors: Errc::Busy, Errc::NoPermission and
/// others as GsiCarrier::open() when no port can be had; Errc::NoDevice when there is none.
[[nodiscard]] Result<std::vector<std::unique_ptr<Port>>> open_ports(ibv_context* context);

}  // namespace wireup::cm::ibcm
