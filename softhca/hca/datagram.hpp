// SPDX-License-Identifier: BSD-3-Clause
// A UD datagram between leaving its sender and reaching a queue pair.
#pragma once

#include <array>
#include <cstdint>

#include "softhca/fabric/fabric_view.hpp"

namespace softhca::hca {

inline constexpr std::uint32_t kGrhBytes = 40;
inline constexpr std::uint32_t kMaxDatagram = 4096;

struct Datagram {
  PortIndex from = kNoPort;
  std::uint32_t src_qpn = 0;
  std::uint32_t src_slot = 0;  // to tell the sender's own QP in loopback of multicasts
  std::uint32_t src_generation = 0;
  std::uint32_t dest_qpn = 0;
  std::uint32_t qkey = 0;
  std::uint32_t imm_data = 0;  // as given, network order
  std::uint32_t length = 0;    // of the payload
  std::uint16_t slid = 0;
  std::uint16_t dlid = 0;
  std::uint16_t pkey = 0;
  std::uint8_t sl = 0;
  bool has_imm = false;
  bool has_grh = false;
  bool solicited = false;
  std::array<std::uint8_t, kGrhBytes> grh{};
  std::array<std::uint8_t, kMaxDatagram> payload;  // the first `length` bytes are set

  [[nodiscard]] bool multicast() const { return dlid >= 0xC000 && dlid != 0xFFFF; }
  [[nodiscard]] Gid dgid() const {
    Gid gid{};
    for (std::size_t i = 0; i < gid.size(); ++i) {
      gid[i] = grh[24 + i];
    }
    return gid;
  }
};

/// Writes a Global Route Header (IBTA vol 1, 8.3): version 6, next header 0x1B.
void write_grh(std::array<std::uint8_t, kGrhBytes>& grh, const Gid& sgid, const Gid& dgid,
               std::uint8_t traffic_class, std::uint32_t flow_label, std::uint8_t hop_limit,
               std::uint32_t payload_length);

/// Two P_Keys match: same partition, not both limited members, none of them 0.
bool pkeys_match(std::uint16_t a, std::uint16_t b);

}  // namespace softhca::hca
