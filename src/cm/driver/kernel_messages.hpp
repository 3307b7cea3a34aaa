// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "cm/engine/types.hpp"
#include "mad/cm.hpp"
#include "mad/path_record.hpp"
#include "rdmacm/cm_values.hpp"

/// Between CM messages and what the kernel's connection manager takes and tells. Pure.
namespace wireup::cm {

/// What a port runs over: AF_IB addresses work on InfiniBand only, IP addresses are RoCE's GIDs.
enum class Medium : std::uint8_t { Infiniband, Roce };

/// The kernel's CM is reached by this queue pair on every port.
inline constexpr Qpn kKernelCmQpn{1};

/// Bytes of private data that a REQ can have. On IP ids the kernel's own header takes 36.
[[nodiscard]] constexpr std::size_t request_private_limit(Medium medium) noexcept {
  return medium == Medium::Infiniband ? mad::Req::kPrivateSize : mad::Req::kPrivateSize - 36;
}

/// Without the zeros at the end, which the receiver puts there again.
[[nodiscard]] std::span<const std::uint8_t> trimmed(std::span<const std::uint8_t> bytes) noexcept;

/// Whether the kernel's CM can carry it. Errc::InvalidArgument: a value that has to be another one,
/// with both; Errc::Unsupported: a feature that it lacks (transports but RC, alternate paths, ECE).
[[nodiscard]] Result<> check(const mad::Req& req, Medium medium) noexcept;
[[nodiscard]] Result<> check(const mad::Rep& rep) noexcept;

struct KernelEnds {
  rdmacm::CmAddress source;
  rdmacm::CmAddress destination;
};
/// Where a REQ goes from and to, by the GIDs of its primary path, its P_Key and its service id.
[[nodiscard]] KernelEnds ends_of(const mad::Req& req, Medium medium, std::uint32_t scope_id);

/// The primary path of a REQ as an SA record. A REQ has the ACK timeout instead of the packet
/// lifetime: the lifetime is taken as half of it, which is how the receiver does it too.
[[nodiscard]] mad::PathRecord path_of(const mad::Req& req, Medium medium) noexcept;

[[nodiscard]] rdmacm::ConnectionValues values_of(const mad::Req& req) noexcept;
[[nodiscard]] rdmacm::ConnectionValues values_of(const mad::Rep& rep) noexcept;

/// The peer of a ConnectRequest as the sender of what is made of its events.
[[nodiscard]] Address source_of(const rdmacm::CmEvent& event, Medium medium) noexcept;

/// What an event leaves open.
struct KernelDefaults {
  Medium medium = Medium::Infiniband;
  ServiceId service_id;
  mad::CmMtu mtu;
};
/// The message that an event stands for, without TID and communication ids. The sender's CA GUID is
/// not known: its port's interface id stands in for it. The starting PSN is the derived one.
[[nodiscard]] mad::Req req_of(const rdmacm::CmEvent& event,
                              const KernelDefaults& defaults) noexcept;
[[nodiscard]] mad::Rep rep_of(const rdmacm::CmEvent& event, Guid ca_guid) noexcept;

/// In the private data of a REJ (reason 28): its sender has abandoned the request, as one of two
/// that crossed. A message of the IB CM has no such meaning: there the request just stays without
/// an answer.
[[nodiscard]] std::span<const std::uint8_t> abandoned_mark() noexcept;
[[nodiscard]] bool is_abandoned(const rdmacm::CmEvent& rejected) noexcept;

}  // namespace wireup::cm
