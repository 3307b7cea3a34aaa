// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "verbs/device.hpp"

namespace wireup::verbs {

/// What a device said of a port since the last time.
struct PortNews {
  /// Anything: its state, LID, GIDs or P_Keys may be others.
  bool has_changed = false;
  /// What the subnet manager was told is to be told again: another one is there, or it asked for
  /// that. It may have given others new LIDs and ways too.
  bool is_to_register = false;
};

/// The asynchronous events of a device about one port. Takes all events of the device, so there is
/// one of these for an open Device. Not thread-safe; never blocks.
class PortEvents {
 public:
  /// `device` must outlive this.
  [[nodiscard]] static Result<PortEvents> open(const Device& device, std::uint8_t port);

  /// Readable when there may be news.
  [[nodiscard]] int fd() const noexcept;
  [[nodiscard]] PortNews take() noexcept;

 private:
  PortEvents(const Ops& ops, ibv_context* context, std::uint8_t port) noexcept
      : ops_(&ops), context_(context), port_(port) {}

  const Ops* ops_;
  ibv_context* context_;
  std::uint8_t port_;
};

}  // namespace wireup::verbs
