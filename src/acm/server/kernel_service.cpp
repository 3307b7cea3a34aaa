// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/kernel_service.hpp"

#include <sys/socket.h>
// Needs sa_family_t of the header above.
#include <linux/netlink.h>

#include <array>
#include <cerrno>
#include <span>
#include <variant>

#include "acm/server/routed_paths.hpp"

namespace wireup::acm {
namespace {

constexpr int kDatagramsPerTurn = 64;
/// A request has 16 + 68 bytes and eight attributes of at most 20.
constexpr std::size_t kMaxDatagram = 4096;
/// The kernel gives up after some seconds; more than this cannot be questions that still count.
constexpr std::size_t kMaxWaiting = 4096;

ssize_t receive_netlink(int fd, void* to, std::size_t size, std::uint32_t* sender) {
  sockaddr_nl from{};
  iovec part{to, size};
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof(from);
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT | MSG_TRUNC);
  *sender = from.nl_pid;
  return length;
}

ssize_t send_netlink(int fd, const void* bytes, std::size_t size, std::uint32_t groups) {
  sockaddr_nl to{};
  to.nl_family = AF_NETLINK;
  to.nl_groups = groups;
  return sendto(fd, bytes, size, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
}

}  // namespace

const NetlinkOps& system_netlink() noexcept {
  static constexpr NetlinkOps kOps{receive_netlink, send_netlink};
  return kOps;
}

Result<UniqueFd> open_netlink() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, kNetlinkProtocol));
  if (!socket.is_open()) {
    return fail(Error::system(errno == EPROTONOSUPPORT ? Errc::Unsupported : Errc::NoResources,
                              errno, "opening the kernel's RDMA netlink"));
  }
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kNetlinkGroups;
  if (bind(socket.value(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail(Error::system(errno == EPERM ? Errc::NoPermission : Errc::NoResources, errno,
                              "joining the group of the kernel's path requests"));
  }
  return socket;
}

void KernelService::progress() {
  for (int i = 0; i < kDatagramsPerTurn; ++i) {
    std::array<std::uint8_t, kMaxDatagram> buffer;
    std::uint32_t sender = 0;
    const ssize_t length = ops_->receive(socket_.value(), buffer.data(), buffer.size(), &sender);
    if (length < 0 && (errno == EINTR || errno == ENOBUFS)) {
      continue;  // ENOBUFS: requests were lost; the kernel asks the fabric for those itself
    }
    if (length < 0) {
      return;
    }
    const auto size = static_cast<std::size_t>(length);
    if (!is_from_kernel(sender) || size > buffer.size()) {
      ++counters_.dropped;
      continue;
    }
    const auto request = decode_netlink(std::span(buffer).first(size));
    if (!request) {
      ++counters_.dropped;
      continue;
    }
    ++counters_.requests;
    handle(*request);
  }
}

void KernelService::handle(const NetlinkRequest& request) {
  Ask ask;
  ask.request.op = ClientOp::Resolve;
  if (const auto* resolve = std::get_if<NetlinkResolve>(&request.body)) {
    PathQuestion question;
    question.path = resolve->record;
    // The kernel says so where it wants a path that works both ways.
    question.path.reversible = resolve->use != PathUse::Unidirectional;
    ask.request.body = question;
  } else if (const auto* address = std::get_if<NetlinkIpResolve>(&request.body)) {
    AddressQuestion question{std::nullopt, address->address, std::nullopt, false};
    ask.request.body = question;
  } else {
    refuse(request);
    return;
  }
  if (waiting_.size() >= kMaxWaiting) {
    refuse(request);
    return;
  }
  ask.id = next_id_++;
  waiting_.emplace(ask.id, request);
  asks_.push_back(ask);
}

std::optional<KernelService::Ask> KernelService::poll_ask() {
  if (asks_.empty()) {
    return std::nullopt;
  }
  const Ask ask = asks_.front();
  asks_.pop_front();
  return ask;
}

void KernelService::reply(AskId id, const ClientReply& reply) {
  const auto at = waiting_.find(id);
  if (at == waiting_.end()) {
    return;
  }
  const NetlinkRequest request = std::move(at->second);
  waiting_.erase(at);
  const auto* resolved = std::get_if<ResolveReply>(&reply.body);
  if (reply.status != ClientStatus::Success || resolved == nullptr) {
    refuse(request);
    return;
  }
  ++counters_.answered;
  const mad::PathRecord& record = resolved->paths.front().record;
  if (const auto* resolve = std::get_if<NetlinkResolve>(&request.body)) {
    const auto outbound = path_with(resolved->paths, path_flag::kUnidirectional);
    const auto inbound = path_with(resolved->paths, path_flag::kInbound | path_flag::kPrimary);
    send(encode_netlink_paths(request, netlink_paths(resolve->use, record, outbound, inbound)));
  } else {
    send(encode_netlink_gid(request, record.dgid));
  }
}

void KernelService::refuse(const NetlinkRequest& request) {
  ++counters_.failed;
  send(encode_netlink_failure(request));
}

void KernelService::send(const std::vector<std::uint8_t>& bytes) {
  // An answer that cannot be sent is one that comes too late: the kernel asks the fabric itself.
  while (ops_->send(socket_.value(), bytes.data(), bytes.size(), kNetlinkGroups) < 0 &&
         errno == EINTR) {
  }
}

}  // namespace wireup::acm
