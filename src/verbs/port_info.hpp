// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace wireup::verbs {

enum class LinkLayer : std::uint8_t { InfiniBand, Ethernet, Other };

/// Index of the GID that InfiniBand ports always hold: default prefix or the SM's, and port GUID.
inline constexpr std::uint8_t kIbGidIndex = 0;

/// What a port says of itself, as of one query. Ids are in host byte order; MTU and rate are IBA
/// codes (mad/rate.hpp), the rate 0 when the link's width and speed have no code.
struct PortInfo {
  std::string device;
  std::uint8_t port = 0;
  Guid node_guid;
  Guid port_guid;
  Gid gid;
  std::uint8_t gid_index = kIbGidIndex;
  Lid lid;
  std::uint8_t lmc = 0;
  Lid sm_lid;
  Sl sm_sl;
  /// The P_Key table up to its last used entry; an unused entry within it is 0.
  std::vector<PKey> pkeys;
  std::uint8_t active_mtu = 0;
  std::uint8_t active_rate = 0;
  std::uint8_t subnet_timeout = 0;
  bool active = false;
  /// "ACTIVE", "INIT", "ARMED", "DOWN", ...
  const char* state = "?";
  LinkLayer link_layer = LinkLayer::Other;

  /// Where the P_Key sits in the table: the entry equal to `pkey` first, else one of the same
  /// partition.
  [[nodiscard]] std::optional<std::uint16_t> pkey_index(PKey pkey) const noexcept;
  /// The P_Key as it stands there, where its membership may differ. Errc::InvalidArgument: it does
  /// not.
  [[nodiscard]] Result<PKey> table_pkey(PKey wanted) const;
  /// The one to use when nobody wishes another: the first of the table with full membership, else
  /// the first that is used.
  [[nodiscard]] std::optional<std::uint16_t> usual_pkey_index() const noexcept;
  /// "softhca0 port 1", for messages.
  [[nodiscard]] std::array<char, 96> name() const noexcept;
};

}  // namespace wireup::verbs
