// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"

/// InfiniBand packets as they are on a link, for captures: nothing here is sent. Pure.
namespace wireup::cm {

/// Global route header, for packets that have one (IBTA vol 1, 8.3).
struct GlobalRoute {
  Gid sgid;
  Gid dgid;
  FlowLabel flow_label;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
};

/// A UD SEND Only packet: LRH, GRH if `global`, BTH, DETH, payload, padding, ICRC and VCRC.
struct UdPacket {
  Lid slid;
  Lid dlid;
  Sl sl;
  std::optional<GlobalRoute> global{};
  PKey pkey;
  Qpn destination_qpn;
  Psn psn;
  QKey qkey;
  Qpn source_qpn;
  /// At most kMaxPayload bytes; what is above is left out.
  std::span<const std::uint8_t> payload;
};
/// The largest MTU.
inline constexpr std::size_t kMaxPayload = 4096;

/// The bytes of the link, delimiters left out. The virtual lane, which a sender does not know, is
/// 0.
[[nodiscard]] std::vector<std::uint8_t> serialize(const UdPacket& packet);

/// The invariant CRC (IBTA vol 1, 7.8.1) of a packet from its LRH to its padding, at least LRH and
/// BTH. Its bytes on the link are the value's, the least significant first.
[[nodiscard]] std::uint32_t invariant_crc(std::span<const std::uint8_t> packet);
/// The variant CRC (IBTA vol 1, 7.8.2) of a packet from its LRH to its ICRC. Its bytes on the link
/// are the value's, the least significant first.
[[nodiscard]] std::uint16_t variant_crc(std::span<const std::uint8_t> packet) noexcept;

}  // namespace wireup::cm
