// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "mad/field.hpp"

namespace wireup::mad {

/// A whole MAD (IBTA vol 1, 13.4.2): 24 bytes of header, 232 of data.
inline constexpr std::size_t kMadSize = 256;
inline constexpr std::size_t kHeaderSize = 24;
using Mad = std::array<std::uint8_t, kMadSize>;

inline constexpr std::uint8_t kBaseVersion = 1;

/// Queue pair and key of the general services (IBTA vol 1, 13.5.1).
inline constexpr std::uint32_t kGsiQpn = 1;
inline constexpr std::uint32_t kGsiQKey = 0x80010000;

/// Management classes we speak; the field itself may hold any number.
enum class MgmtClass : std::uint8_t { SubnAdm = 0x03, CommMgt = 0x07, Acm = 0x2C };

/// Methods we speak.
enum class Method : std::uint8_t {
  Get = 0x01,
  Set = 0x02,
  Send = 0x03,
  Report = 0x06,
  GetTable = 0x12,
  Delete = 0x15,
  GetResp = 0x81,
  ReportResp = 0x86,
  GetTableResp = 0x92,
  DeleteResp = 0x95,
};

/// The common MAD header as values in host byte order. Class, method and attribute stay numbers:
/// what a peer sent need not be one of our enumerators.
struct Header {
  std::uint8_t base_version = kBaseVersion;
  std::uint8_t mgmt_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t method = 0;
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;
  Tid tid;
  std::uint16_t attribute_id = 0;
  std::uint32_t attribute_modifier = 0;
  friend constexpr bool operator==(const Header&, const Header&) noexcept = default;
};

/// Reads the header of `bytes`. Fails with Errc::Malformed when they are fewer than kHeaderSize or
/// the base version is not 1. Reserved bits are ignored.
[[nodiscard]] Result<Header> parse_header(std::span<const std::uint8_t> bytes) noexcept;

/// Writes the header over the first kHeaderSize bytes, reserved bits as zero.
void serialize(const Header& header, std::span<std::uint8_t, kMadSize> to) noexcept;

}  // namespace wireup::mad
