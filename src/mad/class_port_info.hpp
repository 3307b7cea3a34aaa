// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/header.hpp"

/// ClassPortInfo of the communication management class (IBTA vol 1, 13.4.8.1): what a port's CM can
/// do, and where else to ask. A REJ with PortAndCmRedirect and a SIDR_REP with Redirect carry one.
namespace wireup::mad {

inline constexpr std::uint16_t kClassPortInfoAttribute = 0x0001;
inline constexpr std::size_t kClassPortInfoSize = 72;

/// Bits of the capability mask, class specific for the CM. The numbers are those of two public
/// hardware implementations of the class (LiteX's IB cores); the specification's text was not at
/// hand.
enum class CmCapability : std::uint16_t {
  ReliableConnection = 1U << 9U,
  ReliableDatagram = 1U << 10U,
  UnreliableConnection = 1U << 12U,
  Sidr = 1U << 13U,
};

struct ClassPortInfo {
  std::uint8_t base_version = kBaseVersion;
  std::uint8_t class_version = 2;
  /// CmCapability bits, or bits that we do not know.
  std::uint16_t capability_mask = 0;
  /// 27 bits.
  std::uint32_t capability_mask2 = 0;
  /// How long the port takes to answer a MAD of the class.
  IbTimeout response_time;
  /// Where to send requests instead; the GID is zero for "here".
  Gid redirect_gid;
  std::uint8_t redirect_traffic_class = 0;
  Sl redirect_sl;
  FlowLabel redirect_flow_label;
  Lid redirect_lid;
  PKey redirect_pkey;
  Qpn redirect_qpn;
  QKey redirect_qkey;
  friend constexpr bool operator==(const ClassPortInfo&, const ClassPortInfo&) noexcept = default;
};

/// The first kClassPortInfoSize bytes of `bytes`. Errc::Malformed when they are fewer. What is said
/// of traps, which the CM has none of, is ignored.
[[nodiscard]] Result<ClassPortInfo> parse_class_port_info(
    std::span<const std::uint8_t> bytes) noexcept;
/// Traps are written as zero. `capability_mask2` beyond its 27 bits is a defect.
void serialize(const ClassPortInfo& info, std::span<std::uint8_t, kClassPortInfoSize> to) noexcept;

/// The answer to a Get(ClassPortInfo) of the CM class; nothing when `bytes` are anything else.
[[nodiscard]] std::optional<Mad> answer_class_port_info(std::span<const std::uint8_t> bytes,
                                                        IbTimeout response_time) noexcept;

}  // namespace wireup::mad
