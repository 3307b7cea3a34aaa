// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "acm/server/client_message.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "mad/acm.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

// The netlink local service (rdma/rdma_netlink.h): the kernel's SA client and its address
// resolution ask user space before they ask the fabric, one message a datagram to the group
// kNetlinkGroups. Integers are in host byte order. Nothing here does I/O.
//
// While somebody listens to the group, the kernel waits for an answer before it goes its own way:
// every request gets one, a failure at least.

/// Protocol number of the netlink socket (NETLINK_RDMA).
inline constexpr int kNetlinkProtocol = 20;
/// For sockaddr_nl's nl_groups, of requests and of replies.
inline constexpr std::uint32_t kNetlinkGroups = 1U << 2U;

/// Whether a datagram that came from `nl_pid` (of recvmsg()'s sockaddr_nl, not the number in the
/// message) is the kernel's. Any process may write to the group; all others are to be dropped.
[[nodiscard]] constexpr bool is_from_kernel(std::uint32_t nl_pid) noexcept {
  return nl_pid == 0;
}

enum class NetlinkOp : std::uint16_t { Resolve = 0x1000, SetTimeout = 0x1001, IpResolve = 0x1002 };

/// For what the kernel wants the path. All: since Linux 6.1, for a connection, with further
/// records for the two directions; Gmp: the same before it, one reversible record.
enum class PathUse : std::uint8_t { All = 0, Unidirectional = 1, Gmp = 2 };

/// "Which path?"
struct NetlinkResolve {
  static constexpr std::size_t kDeviceSize = 64;

  /// Name of the device, printable.
  std::string device;
  std::uint8_t port = 0;
  PathUse use = PathUse::All;
  /// What is given: service id, DGID, SGID, traffic class, P_Key, QoS class; `mask` has the
  /// path_mask bits of it.
  mad::PathRecord record;
  std::uint64_t mask = 0;
  friend bool operator==(const NetlinkResolve&, const NetlinkResolve&) = default;
};

/// "Which GID has this address?", over the network interface of the index.
struct NetlinkIpResolve {
  std::uint32_t interface = 0;
  /// IPv4 or IPv6.
  mad::AcmAddress address;
  friend bool operator==(const NetlinkIpResolve&, const NetlinkIpResolve&) noexcept = default;
};

/// How long the kernel is to wait for answers. The kernel takes this, it does not send it.
struct NetlinkSetTimeout {
  std::uint32_t milliseconds = 0;
  friend bool operator==(const NetlinkSetTimeout&, const NetlinkSetTimeout&) noexcept = default;
};

/// A request that nobody can answer: to be answered with a failure. The sentence is for the log.
struct NetlinkRefusal {
  Error why;
  friend bool operator==(const NetlinkRefusal&, const NetlinkRefusal&) noexcept = default;
};

struct NetlinkRequest {
  using Body = std::variant<NetlinkRefusal, NetlinkResolve, NetlinkIpResolve, NetlinkSetTimeout>;

  /// What the reply repeats: a NetlinkOp, or an operation that is not known (then `body` is a
  /// refusal).
  std::uint16_t type = 0;
  std::uint32_t sequence = 0;
  Body body;
  friend bool operator==(const NetlinkRequest&, const NetlinkRequest&) = default;
};

/// Reads a datagram. Errc::Malformed when it holds no request to the local service, which gets no
/// answer either. An unknown attribute is skipped; one that is marked mandatory, a known one of
/// another length, or one that comes twice makes a refusal.
[[nodiscard]] Result<NetlinkRequest> decode_netlink(std::span<const std::uint8_t> bytes);

/// The records of a good answer with their flags. The kernel drops what does not have the flags of
/// `use`. `outbound` and `inbound` are for a destination behind a router (the DLID of `inbound` is
/// what the other side is to send to); they are only told where they are asked for.
[[nodiscard]] std::vector<ClientPath> netlink_paths(PathUse use, const mad::PathRecord& path,
                                                    const std::optional<mad::PathRecord>& outbound,
                                                    const std::optional<mad::PathRecord>& inbound);

/// Good answer to a Resolve: 1 to 6 records (a defect otherwise).
[[nodiscard]] std::vector<std::uint8_t> encode_netlink_paths(const NetlinkRequest& request,
                                                             std::span<const ClientPath> paths);
/// Good answer to an IpResolve.
[[nodiscard]] std::vector<std::uint8_t> encode_netlink_gid(const NetlinkRequest& request,
                                                           const Gid& gid);
/// The kernel asks the fabric itself at once.
[[nodiscard]] std::vector<std::uint8_t> encode_netlink_failure(const NetlinkRequest& request);
/// A request of ours; the kernel takes 100 to 200000 ms.
[[nodiscard]] std::vector<std::uint8_t> encode_netlink_set_timeout(std::uint32_t sequence,
                                                                   NetlinkSetTimeout timeout);

}  // namespace wireup::acm
