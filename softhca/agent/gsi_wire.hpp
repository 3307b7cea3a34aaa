// SPDX-License-Identifier: BSD-3-Clause
// The way of general services MADs from port to port: along the LFTs, if both ends share a
// partition, and through the faults that are set.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "softhca/agent/gsi_faults.hpp"
#include "softhca/fabric/fabric_view.hpp"
#include "softhca/mad/mad.hpp"

namespace softhca {

/// One MAD between two QP 1, its addresses in host byte order.
struct GsiPacket {
  PortIndex from = kNoPort;
  PortIndex to = kNoPort;  // set on arrival
  std::uint16_t slid = 0;
  std::uint16_t dlid = 0;
  std::uint8_t sl = 0;
  std::uint16_t pkey = 0;
  std::uint16_t pkey_index = 0;  // set on arrival: where the receiver has the P_Key
  bool has_grh = false;
  Gid sgid{};
  Gid dgid{};
  std::uint8_t gid_index = 0;  // set on arrival: where the receiver has the dgid
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  Mad mad{};
};

/// Not thread-safe.
class GsiWire {
 public:
  GsiWire(const FabricView& view, GsiFaults& faults) : view_(view), faults_(faults) {}

  void send(const GsiPacket& packet, Instant now);

  /// The next packet that has arrived by `now`. What has no way to go is lost here.
  std::optional<GsiPacket> arrive(Instant now);

  /// When arrive() has something next, if it is not now.
  [[nodiscard]] std::optional<Instant> deadline() const;

 private:
  void put(const GsiPacket& packet, Instant when, Instant now);
  void release(std::size_t rule, Instant now);
  void answer_busy(const GsiPacket& packet, PortIndex to, Instant now);
  bool reaches(GsiPacket& packet) const;

  const FabricView& view_;
  GsiFaults& faults_;
  std::deque<GsiPacket> ready_;
  std::multimap<Instant, GsiPacket> later_;
  struct Held {
    GsiPacket packet;
    Instant until{};
  };
  std::multimap<std::size_t, Held> held_;  // by rule
};

/// Whether two P_Keys are of one partition with at least one full member.
constexpr bool pkeys_agree(std::uint16_t a, std::uint16_t b) {
  return (a & 0x7FFF) == (b & 0x7FFF) && (a & 0x7FFF) != 0 && ((a | b) & 0x8000) != 0;
}

}  // namespace softhca
