// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/ipoib_watch.hpp"

#include <sys/socket.h>
// Needs sa_family_t of the header above.
#include <linux/rtnetlink.h>

#include <cerrno>
#include <utility>

namespace wireup::acm {
namespace {

constexpr int kDatagramsPerTurn = 64;
/// The kernel makes none longer than this of a dump.
constexpr std::size_t kMaxDatagram = 65536;
constexpr Duration kDumpLimit = std::chrono::seconds(5);
/// A host whose tables change all the time is not asked all the time.
constexpr Duration kDumpPause = std::chrono::milliseconds(500);

}  // namespace

Result<UniqueFd> open_route_netlink() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!socket.is_open() ||
      bind(socket.value(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail(
        Error::system(Errc::NoResources, errno, "listening for changes of this host's addresses"));
  }
  return socket;
}

void IpoibWatch::ask(std::uint16_t type, Stage stage, Instant now) {
  struct Request {
    nlmsghdr head;
    rtgenmsg body;
  };
  Request request{};
  request.head.nlmsg_len = NLMSG_LENGTH(sizeof(rtgenmsg));
  request.head.nlmsg_type = type;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.head.nlmsg_seq = ++sequence_;
  request.body.rtgen_family = AF_UNSPEC;
  if (ops_->send(socket_.value(), &request, request.head.nlmsg_len, 0) < 0) {
    start_again(now);
    return;
  }
  stage_ = stage;
  due_ = now + kDumpLimit;
}

void IpoibWatch::start_again(Instant now) {
  stage_ = Stage::Waiting;
  due_ = now + kDumpPause;
}

void IpoibWatch::progress(Instant now) {
  if (stage_ != Stage::Watching && due_ <= now) {
    coming_ = {};
    ask(RTM_GETLINK, Stage::Links, now);
  }
  buffer_.resize(kMaxDatagram);
  for (int i = 0; i < kDatagramsPerTurn; ++i) {
    std::uint32_t sender = 0;
    const ssize_t length = ops_->receive(socket_.value(), buffer_.data(), buffer_.size(), &sender);
    if (length < 0 && errno == EINTR) {
      continue;
    }
    if (length < 0 && errno == ENOBUFS) {
      start_again(now);
      continue;
    }
    if (length < 0) {
      return;
    }
    if (sender != 0) {
      continue;  // not the kernel's
    }
    const auto size = static_cast<std::size_t>(length);
    if (size > buffer_.size()) {
      start_again(now);
      continue;
    }
    take(std::span(buffer_).first(size), now);
  }
}

void IpoibWatch::take(std::span<const std::uint8_t> datagram, Instant now) {
  if (stage_ == Stage::Waiting) {
    return;  // the dump to come has it
  }
  IpoibAddresses& table = stage_ == Stage::Watching ? addresses_ : coming_;
  const IpoibAddresses before = stage_ == Stage::Watching ? addresses_ : IpoibAddresses();
  switch (table.handle(datagram, sequence_)) {
    case RouteNews::None:
      break;
    case RouteNews::Lost:
      start_again(now);
      return;
    case RouteNews::Done:
      if (stage_ == Stage::Links) {
        ask(RTM_GETADDR, Stage::Addresses, now);
      } else if (stage_ == Stage::Addresses) {
        stage_ = Stage::Watching;
        addresses_ = std::move(coming_);
        ++version_;
      }
      return;
  }
  if (stage_ == Stage::Watching && addresses_ != before) {
    ++version_;
  }
}

std::optional<Instant> IpoibWatch::poll_timeout() const noexcept {
  return stage_ == Stage::Watching ? std::nullopt : std::optional(due_);
}

}  // namespace wireup::acm
