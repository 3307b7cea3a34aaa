// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/datagram.hpp"

#include <algorithm>

namespace softhca::hca {

void write_grh(std::array<std::uint8_t, kGrhBytes>& grh, const Gid& sgid, const Gid& dgid,
               std::uint8_t traffic_class, std::uint32_t flow_label, std::uint8_t hop_limit,
               std::uint32_t payload_length) {
  // What follows the GRH and is counted in its length: BTH 12, DETH 8, payload padded to words,
  // invariant CRC 4.
  constexpr std::uint32_t kHeaders = 12 + 8;
  constexpr std::uint32_t kIcrc = 4;
  const std::uint32_t length = kHeaders + ((payload_length + 3U) & ~3U) + kIcrc;
  const std::uint32_t first =
      6U << 28 | std::uint32_t{traffic_class} << 20 | (flow_label & 0xFFFFFU);
  for (std::size_t i = 0; i < 4; ++i) {
    grh[i] = static_cast<std::uint8_t>(first >> (24 - 8 * i));
  }
  grh[4] = static_cast<std::uint8_t>(length >> 8);
  grh[5] = static_cast<std::uint8_t>(length);
  grh[6] = 0x1B;
  grh[7] = hop_limit;
  std::copy(sgid.begin(), sgid.end(), grh.begin() + 8);
  std::copy(dgid.begin(), dgid.end(), grh.begin() + 24);
}

bool pkeys_match(std::uint16_t a, std::uint16_t b) {
  constexpr unsigned kFullMember = 0x8000;
  constexpr unsigned kPartition = 0x7FFF;
  return (a & kPartition) != 0 && (a & kPartition) == (b & kPartition) &&
         ((unsigned{a} | b) & kFullMember) != 0;
}

}  // namespace softhca::hca
