// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "base/bounded_bytes.hpp"
#include "base/ids.hpp"
#include "mad/cm.hpp"
#include "mad/path_record.hpp"

/// What goes to the kernel's connection manager and comes from it, without librdmacm's types: the
/// code above needs no header of it.
namespace wireup::rdmacm {

/// Where the kernel's connection manager is found when it is there.
inline constexpr const char* kKernelCm = "/dev/infiniband/rdma_cm";

/// The port spaces of the kernel's service ids: the upper 48 bits; the port is below.
inline constexpr std::uint64_t kPortSpaceMask = 0xFFFFFFFFFFFF0000;
inline constexpr std::uint64_t kIbPortSpace = 0x00000000013F0000;
inline constexpr std::uint64_t kTcpPortSpace = 0x0000000001060000;

/// On InfiniBand: a port (GID), its partition and a service id. A listener that leaves the port of
/// its service id 0 is given one.
struct IbAddress {
  Gid gid;
  PKey pkey;
  ServiceId service;
  friend bool operator==(const IbAddress&, const IbAddress&) noexcept = default;
};

/// On RoCE, whose GIDs are IP addresses: IPv4 as ::ffff:a.b.c.d, all zeros any address of the host.
/// Port 0: the kernel chooses. `scope_id` is the interface of a link-local address.
struct IpAddress {
  Gid gid;
  std::uint16_t port = 0;
  std::uint32_t scope_id = 0;
  friend bool operator==(const IpAddress&, const IpAddress&) noexcept = default;
};

using CmAddress = std::variant<IbAddress, IpAddress>;

/// The values of a REQ or REP that the kernel takes and gives, as the message has them.
struct ConnectionValues {
  /// The length has 8 bits.
  static constexpr std::size_t kMaxPrivateData = 255;

  Qpn qpn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  /// Of a REQ only.
  mad::RetryCount retry_count;
  mad::RnrRetryCount rnr_retry_count;
  bool flow_control = false;
  bool srq = false;
  /// In events usually as long as the message has room for, padded by zeros.
  BoundedBytes<kMaxPrivateData> private_data;
  friend bool operator==(const ConnectionValues&, const ConnectionValues&) noexcept = default;
};

/// Names an id of the kernel's CM; never used twice by one KernelCm.
using IdNumber = std::uint64_t;

enum class CmEventKind : std::uint8_t {
  AddressResolved,
  AddressError,
  RouteResolved,
  RouteError,
  /// A REQ for `listener`; `id` is new and the receiver's to destroy.
  ConnectRequest,
  /// The REP.
  ConnectResponse,
  /// A REP or RTU that the kernel could not send or take.
  ConnectError,
  Unreachable,
  /// `status` is the REJ's reason.
  Rejected,
  Established,
  Disconnected,
  DeviceRemoval,
  TimewaitExit,
  /// Nothing that concerns a connection.
  Other,
};

struct CmEvent {
  CmEventKind kind = CmEventKind::Other;
  IdNumber id = 0;
  IdNumber listener = 0;
  /// 0, a negative errno, or what the kind says.
  int status = 0;
  /// Of ConnectRequest and ConnectResponse, and the private data of Rejected.
  ConnectionValues values;
  /// The id's route, local to remote, when it has one. On RoCE the LIDs in it have no meaning.
  std::optional<mad::PathRecord> path;
  /// The id's addresses as GIDs; zero when it has none.
  Gid local_gid;
  Gid remote_gid;
};

}  // namespace wireup::rdmacm
