// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "acm/server/client_message.hpp"
#include "acm/server/netlink_message.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

/// The two calls on a netlink socket, so that a test can stand in for the kernel. -1 with errno as
/// recvmsg(2) and sendto(2).
struct NetlinkOps {
  /// Takes one datagram of at most `size` bytes; `sender` becomes its sender's port id, 0 for the
  /// kernel's. Returns the datagram's whole length.
  ssize_t (*receive)(int fd, void* to, std::size_t size, std::uint32_t* sender);
  /// Sends to the groups `groups`.
  ssize_t (*send)(int fd, const void* bytes, std::size_t size, std::uint32_t groups);
};
[[nodiscard]] const NetlinkOps& system_netlink() noexcept;

/// A socket in the group that the kernel's SA client asks. Errc::Unsupported: this kernel has no
/// RDMA netlink. Errc::NoPermission: CAP_NET_ADMIN is missing.
[[nodiscard]] Result<UniqueFd> open_netlink();

/// The kernel as a client of the node's service: its questions as those of ibacm's clients, and the
/// answers back to it. Not seen with an InfiniBand kernel yet, since none is at hand whose SA
/// client asks (docs/service.md). Not thread-safe; never blocks.
class KernelService {
 public:
  using AskId = std::uint64_t;
  struct Ask {
    AskId id = 0;
    ClientRequest request;
  };
  struct Counters {
    std::uint64_t requests = 0;
    /// Of other senders than the kernel, and what is no request.
    std::uint64_t dropped = 0;
    std::uint64_t answered = 0;
    std::uint64_t failed = 0;
  };

  explicit KernelService(UniqueFd socket, const NetlinkOps& ops = system_netlink()) noexcept
      : socket_(std::move(socket)), ops_(&ops) {}

  /// Readable when progress() has something to do.
  [[nodiscard]] int fd() const noexcept { return socket_.value(); }
  /// Takes what has come.
  void progress();
  /// The next question, to be answered by exactly one reply().
  [[nodiscard]] std::optional<Ask> poll_ask();
  void reply(AskId id, const ClientReply& reply);
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  void handle(const NetlinkRequest& request);
  void send(const std::vector<std::uint8_t>& bytes);
  void refuse(const NetlinkRequest& request);

  UniqueFd socket_;
  const NetlinkOps* ops_;
  AskId next_id_ = 1;
  std::map<AskId, NetlinkRequest> waiting_;
  std::deque<Ask> asks_;
  Counters counters_;
};

}  // namespace wireup::acm
