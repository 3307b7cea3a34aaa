// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

/// The blocks of a pcapng file with one interface, little-endian, for InfiniBand packets in ERF
/// records: of the link types that tshark decodes InfiniBand in, the one that its Debian 12 version
/// knows. Pure: bytes to append to a file.
namespace wireup::cm::pcapng {

using Block = std::vector<std::uint8_t>;

/// Of a packet, as this process saw it.
struct PacketInfo {
  /// Nanoseconds since 1970, UTC.
  std::uint64_t time_ns = 0;
  bool is_outbound = false;
  /// Shown beside the packet; empty: none.
  std::string_view comment;
};

/// First in a file: who wrote it.
[[nodiscard]] Block section_header(std::string_view application, std::string_view comment);
/// Second: the interface that all packets are of.
[[nodiscard]] Block interface_description(std::string_view name);
/// A packet from its LRH to its VCRC, behind an ERF header.
[[nodiscard]] Block enhanced_packet(const PacketInfo& info, std::span<const std::uint8_t> packet);

}  // namespace wireup::cm::pcapng
