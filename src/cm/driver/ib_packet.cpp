// SPDX-License-Identifier: BSD-3-Clause
#include "cm/driver/ib_packet.hpp"

#include <algorithm>
#include <cstddef>

#include "base/bytes.hpp"
#include "base/check.hpp"

namespace wireup::cm {
namespace {

constexpr std::size_t kLrhSize = 8;
constexpr std::size_t kGrhSize = 40;
constexpr std::size_t kBthSize = 12;
constexpr std::size_t kDethSize = 8;
constexpr std::size_t kIcrcSize = 4;
constexpr std::size_t kVcrcSize = 2;

/// LRH: next header, the two bits below the SL's byte half.
constexpr std::uint8_t kNextIsBth = 2;
constexpr std::uint8_t kNextIsGrh = 3;
constexpr std::uint8_t kNextHeaderMask = 3;
/// GRH: version 6 and "IBA transport" in the next header.
constexpr std::uint64_t kGrhVersion = 6;
constexpr std::uint8_t kNextIsIba = 0x1B;
constexpr std::uint8_t kUdSendOnly = 0x64;

/// The generators' bits with the highest power in the lowest bit, as the bits are on the link:
/// 0x04C11DB7 and 0x100B the other way round.
constexpr std::uint32_t kIcrcGenerator = 0xEDB88320;
constexpr std::uint16_t kVcrcGenerator = 0xD008;

/// A CRC that begins with ones and is inverted at the end, bit by bit: captures are short.
template <typename T>
T crc(std::span<const std::uint8_t> bytes, T generator) noexcept {
  auto rest = static_cast<T>(~T{0});
  for (const std::uint8_t byte : bytes) {
    rest = static_cast<T>(rest ^ byte);
    for (int bit = 0; bit < 8; ++bit) {
      const bool odd = (rest & 1U) != 0;
      rest = static_cast<T>(rest >> 1U);
      rest = odd ? static_cast<T>(rest ^ generator) : rest;
    }
  }
  return static_cast<T>(~rest);
}

template <typename T>
void append_little_endian(std::vector<std::uint8_t>& to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  }
}

bool has_grh(std::span<const std::uint8_t> packet) noexcept {
  return (packet[1] & kNextHeaderMask) == kNextIsGrh;
}

}  // namespace

std::uint32_t invariant_crc(std::span<const std::uint8_t> packet) {
  const std::size_t bth = packet.size() > 1 && has_grh(packet) ? kLrhSize + kGrhSize : kLrhSize;
  WIREUP_CHECK(packet.size() >= bth + kBthSize);
  // What switches and routers change counts as ones.
  std::vector<std::uint8_t> masked(packet.begin(), packet.end());
  if (has_grh(packet)) {
    std::fill_n(masked.begin(), kLrhSize, std::uint8_t{0xFF});
    const std::size_t grh = kLrhSize;
    masked[grh] |= 0x0F;     // traffic class, its upper half
    masked[grh + 1] = 0xFF;  // the lower half, and the flow label
    masked[grh + 2] = 0xFF;
    masked[grh + 3] = 0xFF;
    masked[grh + 7] = 0xFF;  // hop limit
  } else {
    masked[0] |= 0xF0;  // virtual lane
  }
  masked[bth + 4] = 0xFF;  // reserved
  return crc(std::span<const std::uint8_t>(masked), kIcrcGenerator);
}

std::uint16_t variant_crc(std::span<const std::uint8_t> packet) noexcept {
  return crc(packet, kVcrcGenerator);
}

std::vector<std::uint8_t> serialize(const UdPacket& packet) {
  const auto payload = packet.payload.first(std::min(packet.payload.size(), kMaxPayload));
  const std::size_t padding = (4 - payload.size() % 4) % 4;
  const std::size_t grh_size = packet.global.has_value() ? kGrhSize : 0;
  const std::size_t from_bth = kBthSize + kDethSize + payload.size() + padding + kIcrcSize;
  const std::size_t whole = kLrhSize + grh_size + from_bth;

  std::vector<std::uint8_t> bytes(whole - kIcrcSize);
  const std::span<std::uint8_t> to(bytes);
  // LRH (IBTA vol 1, 7.7). Virtual lane and link version are 0; the length is in words.
  to[1] = static_cast<std::uint8_t>(packet.sl.value() << 4U |
                                    (packet.global.has_value() ? kNextIsGrh : kNextIsBth));
  store_be(to, 2, 2, packet.dlid.value());
  store_be(to, 4, 2, whole / 4);
  store_be(to, 6, 2, packet.slid.value());
  if (packet.global.has_value()) {
    const auto grh = to.subspan(kLrhSize, kGrhSize);
    store_be(grh, 0, 4,
             kGrhVersion << 28U | std::uint64_t{packet.global->traffic_class} << 20U |
                 packet.global->flow_label.value());
    store_be(grh, 4, 2, from_bth);
    grh[6] = kNextIsIba;
    grh[7] = packet.global->hop_limit;
    std::copy_n(packet.global->sgid.bytes().begin(), Gid::kSize, grh.begin() + 8);
    std::copy_n(packet.global->dgid.bytes().begin(), Gid::kSize, grh.begin() + 24);
  }
  const auto bth = to.subspan(kLrhSize + grh_size);
  bth[0] = kUdSendOnly;
  bth[1] = static_cast<std::uint8_t>(padding << 4U);
  store_be(bth, 2, 2, packet.pkey.value());
  store_be(bth, 5, 3, packet.destination_qpn.value());
  store_be(bth, 9, 3, packet.psn.value());
  const auto deth = bth.subspan(kBthSize);
  store_be(deth, 0, 4, packet.qkey.value());
  store_be(deth, 5, 3, packet.source_qpn.value());
  std::copy(payload.begin(), payload.end(), deth.begin() + kDethSize);

  bytes.reserve(whole + kVcrcSize);
  append_little_endian(bytes, invariant_crc(bytes));
  append_little_endian(bytes, variant_crc(bytes));
  return bytes;
}

}  // namespace wireup::cm
