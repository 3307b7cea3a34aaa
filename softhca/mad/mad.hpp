// SPDX-License-Identifier: BSD-3-Clause
// The MAD header and the SA and RMPP headers behind it (IBTA vol 1, 13.4.3, 13.6.2, 15.2.1.1),
// written for softhca alone and on purpose not shared with the product's codec: where the two
// disagree, one of them is wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca {

inline constexpr std::size_t kMadSize = 256;
inline constexpr std::size_t kMadHeaderSize = 24;
inline constexpr std::size_t kSaHeaderSize = 56;
inline constexpr std::size_t kSaDataSize = 200;

using Mad = std::array<std::uint8_t, kMadSize>;

inline constexpr std::uint8_t kBaseVersion = 1;

inline constexpr std::uint8_t kClassSmLid = 0x01;
inline constexpr std::uint8_t kClassSa = 0x03;
inline constexpr std::uint8_t kClassPerf = 0x04;
inline constexpr std::uint8_t kClassCm = 0x07;
inline constexpr std::uint8_t kClassSmDirect = 0x81;
inline constexpr std::uint8_t kVendor2First = 0x30;  // classes with an OUI
inline constexpr std::uint8_t kVendor2Last = 0x4F;

inline constexpr std::uint8_t kMethodGet = 0x01;
inline constexpr std::uint8_t kMethodSet = 0x02;
inline constexpr std::uint8_t kMethodSend = 0x03;
inline constexpr std::uint8_t kMethodTrap = 0x05;
inline constexpr std::uint8_t kMethodReport = 0x06;
inline constexpr std::uint8_t kMethodTrapRepress = 0x07;
inline constexpr std::uint8_t kMethodGetTable = 0x12;
inline constexpr std::uint8_t kMethodDelete = 0x15;
inline constexpr std::uint8_t kMethodResponse = 0x80;

inline constexpr std::uint16_t kAttrPathRecord = 0x0035;
inline constexpr std::uint16_t kAttrMcMemberRecord = 0x0038;

struct MadHeader {
  std::uint8_t base_version = kBaseVersion;
  std::uint8_t mgmt_class = 0;
  std::uint8_t class_version = 1;
  std::uint8_t method = 0;
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;  // hop pointer and hop count in directed-route SMPs
  std::uint64_t tid = 0;
  std::uint16_t attr_id = 0;
  std::uint32_t attr_mod = 0;

  bool operator==(const MadHeader&) const = default;

  /// A response, or a message that is one although its method has no response bit (TrapRepress
  /// answers a Trap).
  [[nodiscard]] bool is_response() const {
    return (method & kMethodResponse) != 0 || method == kMethodTrapRepress;
  }
};

/// `bytes` holds at least kMadHeaderSize bytes.
MadHeader get_mad_header(std::span<const std::uint8_t> bytes);
void put_mad_header(std::span<std::uint8_t> bytes, const MadHeader& header);

inline constexpr std::size_t kTidOffset = 8;

/// RMPP header at byte 24 (IBTA vol 1 table 179).
struct RmppHeader {
  std::uint8_t version = 0;
  std::uint8_t type = 0;   // 1 DATA, 2 ACK, 3 STOP, 4 ABORT
  std::uint8_t flags = 0;  // low 3 bits: 1 Active, 2 First, 4 Last
  std::uint8_t status = 0;
  std::uint32_t segment = 0;
  std::uint32_t payload_length = 0;  // of the last segment, SA header bytes (20) included

  bool operator==(const RmppHeader&) const = default;
};

inline constexpr std::uint8_t kRmppTypeData = 1;
inline constexpr std::uint8_t kRmppFlagActive = 1;
inline constexpr std::uint8_t kRmppFlagFirst = 2;
inline constexpr std::uint8_t kRmppFlagLast = 4;
inline constexpr std::uint32_t kRmppSaHeader = 20;  // SM_Key, AttributeOffset, ComponentMask

/// `bytes` holds at least 36 bytes.
RmppHeader get_rmpp_header(std::span<const std::uint8_t> bytes);

void put_rmpp_header(std::span<std::uint8_t> bytes, const RmppHeader& header);

/// Makes an SA answer what a wire would have carried. umad2sim passes a table answer on with only
/// the RMPP Active flag set and tells `length`, the bytes that the subnet manager sent, at most
/// 256. Here such an answer gets the header of a first segment, which is also the last one when
/// the answer fits. Any other answer is left alone. Returns the bytes that mean something.
std::size_t complete_sa_answer(std::span<std::uint8_t, kMadSize> mad, std::size_t length);

}  // namespace softhca
