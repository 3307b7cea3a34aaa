// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace wireup::pmix {

/// One port of a process, as its peers need it to reach its CM endpoint and to plan a path.
struct CardPort {
  Guid node_guid;
  Guid port_guid;
  Gid gid;
  Lid lid;                  ///< base LID; 0 on links without LIDs (RoCE)
  PKey pkey;                ///< the partition of the CM endpoint
  Qpn cm_qpn;               ///< the UD QP that takes CM messages on this port, or QP1
  std::uint8_t number = 1;  ///< port number on its device, for messages to people
  std::uint8_t lmc = 0;     ///< 0 to 7
  std::uint8_t mtu = 0;     ///< IBA code: 1 = 256 bytes … 5 = 4096
  std::uint8_t rate = 0;    ///< IBA code of a path record, 6 bits
  std::optional<Sl> sl;     ///< nothing when the port does not know one

  friend bool operator==(const CardPort&, const CardPort&) noexcept = default;
};

/// What a process publishes once, for all its peers.
struct Card {
  static constexpr std::uint32_t kMagic = 0x57555043;  // "WUPC"
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::size_t kMaxPorts = 4;
  static constexpr std::size_t kHeaderSize = 32;
  static constexpr std::size_t kPortSize = 48;
  static constexpr std::size_t kCrcSize = 4;
  static constexpr std::size_t kMaxSize = kHeaderSize + kMaxPorts * kPortSize + kCrcSize;

  std::uint64_t incarnation = 0;  ///< random per context, never 0: tells a restarted rank apart
  PeerId owner;
  QKey cm_qkey;
  std::vector<CardPort> ports;  ///< 1 to kMaxPorts; the first is the preferred one

  friend bool operator==(const Card&, const Card&) = default;
};
static_assert(Card::kMaxSize <= 256);

/// The packed card, big-endian; the layout is in docs/architecture.md and card.cpp.
/// InvalidArgument names the field that does not fit.
[[nodiscard]] Result<std::vector<std::uint8_t>> serialize(const Card& card);

/// Strict: Malformed for a wrong magic, length, checksum, reserved byte or a value outside its
/// range; Unsupported for a version this code does not know.
[[nodiscard]] Result<Card> parse_card(std::span<const std::uint8_t> bytes);

}  // namespace wireup::pmix
