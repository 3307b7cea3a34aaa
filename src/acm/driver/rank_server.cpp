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

Result<RankServer> RankServer::open(UniqueFd listener, const RankServerLimits& limits) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open() ||
      !watch(epoll.value(), EPOLL_CTL_ADD, listener.value(), kListener, EPOLLIN)) {
    return fail(Error::system(Errc::NoResources, errno, "watching the resolver's socket"));
  }
  return RankServer(std::move(listener), std::move(epoll), limits);
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
    if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) {
      handle_hang_up(event.data.u64);
    }
  }
}

void RankServer::accept_all() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    const bool has_room = ranks_.size() < limits_.max_ranks;
    auto accepted = has_room ? accept_from(listener_.value(), limits_.audience)
                             : Result<std::optional<AcceptedRank>>(fail(Errc::NoResources));
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
    // One too many of a user is closed at once: in the queue it would keep the others from theirs.
    if (!rank_shares_.take((*accepted)->user)) {
      continue;
    }
    const RankId id = next_id_++;
    if (!watch(epoll_.value(), EPOLL_CTL_ADD, (*accepted)->socket.value(), id, EPOLLIN)) {
      rank_shares_.give_back((*accepted)->user);
      continue;
    }
    Rank& rank = ranks_[id];
    rank.socket = std::move((*accepted)->socket);
    rank.user = (*accepted)->user;
    rank.watched = EPOLLIN;
  }
}

void RankServer::receive_from(RankId id) {
  const auto at = ranks_.find(id);
  if (at == ranks_.end()) {
    return;
  }
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    if (is_full(at->second.user)) {
      hold_back(at);
      return;
    }
    std::array<std::uint8_t, ServiceReply::kSize> buffer{};
    const ReceivedPacket packet = receive_packet(at->second.socket.value(), buffer);
    if (packet.outcome == ReceiveOutcome::WouldBlock) {
      return;
    }
    if (packet.outcome != ReceiveOutcome::Received || packet.is_cut ||
        !take(at, std::span(buffer).first(packet.size))) {
      drop(id);
      return;
    }
  }
}

/// Nobody reads what it still asks, so it does not wait for room.
void RankServer::handle_hang_up(RankId id) {
  const auto at = ranks_.find(id);
  if (at != ranks_.end() && at->second.is_held_back) {
    drop(id);
  }
}

bool RankServer::take(Place at, std::span<const std::uint8_t> packet) {
  const auto request = decode_request(packet);
  if (!request) {
    return false;
  }
  Rank& rank = at->second;
  // What is asked again is no further question: one reply is for both.
  if (request->op == ServiceOp::Resolve && rank.pending.insert(request->question).second) {
    static_cast<void>(pending_shares_.take(rank.user));
  }
  static_cast<void>(queued_shares_.take(rank.user));
  requests_.push_back({at->first, rank.user, *request});
  return true;
}

void RankServer::hold_back(Place at) {
  at->second.is_held_back = true;
  held_back_[at->second.user].insert(at->first);
  watch_rank(at);
}

void RankServer::end_pending(Place at, std::set<RankQuestion>::iterator question) {
  at->second.pending.erase(question);
  pending_shares_.give_back(at->second.user);
}

bool RankServer::is_full(uid_t user) const {
  return pending_shares_.is_full(user) || queued_shares_.is_full(user);
}

/// Lets a user's ranks be read again where half of its room is free: for less, all of them would be
/// woken for each single reply.
void RankServer::let_go_on(uid_t user) {
  const auto held = held_back_.find(user);
  const std::size_t most = limits_.max_pending_each_user / 2;
  if (held == held_back_.end() || pending_shares_.held(user) > most ||
      queued_shares_.held(user) > most) {
    return;
  }
  const std::set<RankId> ranks = std::move(held->second);
  held_back_.erase(held);
  for (const RankId id : ranks) {
    if (const auto at = ranks_.find(id); at != ranks_.end()) {
      at->second.is_held_back = false;
      watch_rank(at);
    }
  }
}

void RankServer::watch_rank(Place at) {
  Rank& rank = at->second;
  const std::uint32_t wanted =
      (rank.is_held_back ? 0U : EPOLLIN) | (rank.waiting.empty() ? 0U : EPOLLOUT);
  if (wanted == rank.watched) {
    return;
  }
  if (!watch(epoll_.value(), EPOLL_CTL_MOD, rank.socket.value(), at->first, wanted)) {
    drop(at->first);
    return;
  }
  rank.watched = wanted;
}

void RankServer::reply(RankId id, const ServiceReply& reply) {
  const auto at = ranks_.find(id);
  if (at == ranks_.end()) {
    return;
  }
  const uid_t user = at->second.user;
  if (const auto question = at->second.pending.find(reply.question);
      question != at->second.pending.end()) {
    end_pending(at, question);
  }
  at->second.waiting.push_back(encode(reply));
  send_to(id);
  let_go_on(user);
}

void RankServer::send_to(RankId id) {
  const auto at = ranks_.find(id);
  if (at == ranks_.end()) {
    return;
  }
  Rank& rank = at->second;
  while (!rank.waiting.empty()) {
    const SendOutcome sent = send_packet(rank.socket.value(), rank.waiting.front());
    if (sent == SendOutcome::WouldBlock && rank.waiting.size() <= kMaxWaiting) {
      break;
    }
    if (sent != SendOutcome::Sent) {
      drop(id);
      return;
    }
    rank.waiting.pop_front();
  }
  watch_rank(at);
}

void RankServer::drop(RankId id) {
  const auto at = ranks_.find(id);
  const uid_t user = at->second.user;
  while (!at->second.pending.empty()) {
    end_pending(at, at->second.pending.begin());
  }
  if (const auto held = held_back_.find(user); held != held_back_.end()) {
    held->second.erase(id);
  }
  ranks_.erase(at);
  rank_shares_.give_back(user);
  gone_.push_back(id);
  let_go_on(user);
}

std::optional<RankServer::Request> RankServer::poll_request() {
  while (!requests_.empty()) {
    const Request request = requests_.front();
    requests_.pop_front();
    queued_shares_.give_back(request.user);
    let_go_on(request.user);
    // A path that failed is worth knowing whoever said so; a question of one who has gone is not.
    if (request.request.op != ServiceOp::Resolve || ranks_.find(request.rank) != ranks_.end()) {
      return request;
    }
  }
  return std::nullopt;
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
