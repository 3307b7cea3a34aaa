// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/rank_server.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include "acm/driver/service_socket.hpp"

namespace wireup::acm {
namespace {

constexpr RankServer::RankId kListener = 0;
/// Packets taken from one rank before the others have their turn.
constexpr int kPacketsPerTurn = 64;
constexpr int kAcceptsPerTurn = 64;
/// A rank that leaves more replies lying about is broken.
constexpr std::size_t kMaxWaiting = 65536;

bool watch(int epoll, int operation, int fd, RankServer::RankId id, std::uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(epoll, operation, fd, &event) == 0;
}

}  // namespace

Result<RankServer> RankServer::open(UniqueFd listener) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open() ||
      !watch(epoll.value(), EPOLL_CTL_ADD, listener.value(), kListener, EPOLLIN)) {
    return fail(Error::system(Errc::NoResources, errno, "watching the resolver's socket"));
  }
  return RankServer(std::move(listener), std::move(epoll));
}

void RankServer::progress() {
  if (is_paused_) {
    is_paused_ = !watch(epoll_.value(), EPOLL_CTL_MOD, listener_.value(), kListener, EPOLLIN);
  }
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(epoll_.value(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == kListener) {
      accept_all();
      continue;
    }
    if ((event.events & EPOLLOUT) != 0) {
      send_to(event.data.u64);
    }
    if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
      receive_from(event.data.u64);
    }
  }
}

void RankServer::accept_all() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    auto accepted = accept_from(listener_.value());
    if (!accepted && accepted.error().is(Errc::NoPermission)) {
      continue;
    }
    if (!accepted) {
      is_paused_ = watch(epoll_.value(), EPOLL_CTL_MOD, listener_.value(), kListener, 0);
      return;
    }
    if (!accepted->has_value()) {
      return;
    }
    const RankId id = next_id_++;
    if (watch(epoll_.value(), EPOLL_CTL_ADD, (*accepted)->value(), id, EPOLLIN)) {
      ranks_[id].socket = std::move(**accepted);
    }
  }
}

void RankServer::receive_from(RankId id) {
  const auto at = ranks_.find(id);
  if (at == ranks_.end()) {
    return;
  }
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    std::array<std::uint8_t, ServiceReply::kSize> buffer{};
    const ReceivedPacket packet = receive_packet(at->second.socket.value(), buffer);
    if (packet.outcome == ReceiveOutcome::WouldBlock) {
      return;
    }
    const auto request = packet.outcome == ReceiveOutcome::Received && !packet.is_cut
                             ? decode_request(std::span(buffer).first(packet.size))
                             : Result<ServiceRequest>(fail(Errc::Malformed));
    if (!request) {
      drop(id);
      return;
    }
    requests_.push_back({id, *request});
  }
}

void RankServer::reply(RankId rank, const ServiceReply& reply) {
  const auto at = ranks_.find(rank);
  if (at == ranks_.end()) {
    return;
  }
  at->second.waiting.push_back(encode(reply));
  send_to(rank);
}

void RankServer::send_to(RankId id) {
  const auto at = ranks_.find(id);
  if (at == ranks_.end()) {
    return;
  }
  Rank& rank = at->second;
  while (!rank.waiting.empty()) {
    switch (send_packet(rank.socket.value(), rank.waiting.front())) {
      case SendOutcome::Sent:
        rank.waiting.pop_front();
        continue;
      case SendOutcome::WouldBlock:
        rank.wants_room = rank.wants_room || watch(epoll_.value(), EPOLL_CTL_MOD,
                                                   rank.socket.value(), id, EPOLLIN | EPOLLOUT);
        if (rank.waiting.size() > kMaxWaiting || !rank.wants_room) {
          drop(id);
        }
        return;
      case SendOutcome::Closed:
        drop(id);
        return;
    }
  }
  if (rank.wants_room) {
    rank.wants_room = !watch(epoll_.value(), EPOLL_CTL_MOD, rank.socket.value(), id, EPOLLIN);
  }
}

void RankServer::drop(RankId id) {
  ranks_.erase(id);
  gone_.push_back(id);
}

std::optional<RankServer::Request> RankServer::poll_request() {
  if (requests_.empty()) {
    return std::nullopt;
  }
  Request request = requests_.front();
  requests_.pop_front();
  return request;
}

std::optional<RankServer::RankId> RankServer::poll_gone() {
  if (gone_.empty()) {
    return std::nullopt;
  }
  const RankId id = gone_.front();
  gone_.pop_front();
  return id;
}

}  // namespace wireup::acm
