// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/client_server.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/check.hpp"

namespace wireup::acm {
namespace {

constexpr ClientServer::ClientId kListener = 0;
constexpr int kAcceptsPerTurn = 256;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

std::optional<ClientPeer> peer_of(int socket) noexcept {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return std::nullopt;
  }
  return ClientPeer{peer.pid, peer.uid, peer.gid};
}

}  // namespace

Result<ClientServer> ClientServer::open(ClientListener listener, const ClientServerLimits& limits) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "watching the clients' socket"));
  }
  ClientServer server(std::move(listener), std::move(epoll), limits);
  if (!server.watch(EPOLL_CTL_ADD, server.listener_.fd(), kListener, EPOLLIN)) {
    return fail(Error::system(Errc::NoResources, errno, "watching the clients' socket"));
  }
  return server;
}

bool ClientServer::watch(int operation, int fd, ClientId id, std::uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(epoll_.value(), operation, fd, &event) == 0;
}

void ClientServer::progress(Instant now) {
  now_ = now;
  if (paused_until_.has_value() && now >= *paused_until_) {
    resume_accepting();
  }
  std::array<epoll_event, 256> events{};
  const int count = epoll_wait(epoll_.value(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == kListener) {
      accept_all();
    } else {
      handle_events(event.data.u64, event.events);
    }
  }
  // After what has arrived, so that nobody is late because this was called late.
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto at = clients_.find(deadlines_.begin()->second);
    drop(at, Error::make(Errc::Timeout,
                         "ACM client (pid %d, uid %u) has sent %zu bytes of a request and no more",
                         at->second.peer.pid, at->second.peer.uid, at->second.input.size()));
  }
}

std::optional<Instant> ClientServer::poll_timeout() const noexcept {
  std::optional<Instant> next = paused_until_;
  if (!deadlines_.empty() && (!next.has_value() || deadlines_.begin()->first < *next)) {
    next = deadlines_.begin()->first;
  }
  return next;
}

void ClientServer::accept_all() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (clients_.size() >= limits_.max_clients) {
      pause_accepting();
      return;
    }
    UniqueFd socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      // Out of descriptors or memory: the connection stays in the queue.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        pause_accepting();
      }
      return;
    }
    add(std::move(socket));
  }
}

void ClientServer::add(UniqueFd socket) {
  const auto peer = peer_of(socket.value());
  const ClientId id = next_id_++;
  if (!peer.has_value()) {
    return;
  }
  // One too many is closed at once: in the queue it would keep other users from their turn.
  if (!client_shares_.take(peer->uid)) {
    ++counters_.turned_away;
    return;
  }
  if (!watch(EPOLL_CTL_ADD, socket.value(), id, EPOLLIN)) {
    client_shares_.give_back(peer->uid);
    return;
  }
  Client& client = clients_[id];
  client.socket = std::move(socket);
  client.peer = *peer;
  client.watched = EPOLLIN;
  ++counters_.accepted;
}

void ClientServer::pause_accepting() {
  if (watch(EPOLL_CTL_MOD, listener_.fd(), kListener, 0)) {
    paused_until_ = now_ + kAcceptPause;
  }
}

void ClientServer::resume_accepting() {
  if (watch(EPOLL_CTL_MOD, listener_.fd(), kListener, EPOLLIN)) {
    paused_until_.reset();
  } else {
    paused_until_ = now_ + kAcceptPause;
  }
}

void ClientServer::handle_events(ClientId id, std::uint32_t events) {
  const auto at = clients_.find(id);
  if (at == clients_.end()) {
    return;
  }
  // Both halves are closed: nobody is there to read a reply.
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    drop(at, std::nullopt);
  } else if ((events & EPOLLOUT) != 0) {
    send_to(at);
  } else if ((events & EPOLLIN) != 0) {
    receive_from(at);
  }
}

void ClientServer::receive_from(Place at) {
  Client& client = at->second;
  const std::size_t before = client.input.size();
  client.input.resize(kMaxClientRequest);
  const ssize_t size = recv(client.socket.value(), client.input.data() + before,
                            client.input.size() - before, MSG_DONTWAIT);
  client.input.resize(before + (size > 0 ? static_cast<std::size_t>(size) : 0));
  if (size < 0 && errno != EAGAIN && errno != EINTR) {
    drop(at, std::nullopt);
    return;
  }
  client.has_ended = client.has_ended || size == 0;
  go_on(at);
}

Result<bool> ClientServer::take_request(Place at) {
  Client& client = at->second;
  if (client.input.size() < kClientHeaderSize) {
    return false;
  }
  const std::span<const std::uint8_t> input = client.input;
  const auto size = client_request_size(input.first<kClientHeaderSize>());
  if (!size) {
    return fail(size.error());
  }
  if (input.size() < *size) {
    return false;
  }
  if (served_shares_.is_full(client.peer.uid)) {
    if (!client.is_queued) {
      client.is_queued = true;
      queued_[client.peer.uid].push_back(at->first);
    }
    return false;
  }
  const auto request = decode_client_request(input.first(*size));
  if (!request) {
    return fail(request.error());
  }
  client.input.erase(client.input.begin(),
                     client.input.begin() + static_cast<std::ptrdiff_t>(*size));
  set_deadline(at, std::nullopt);
  ++counters_.requests;
  if (const auto* refusal = std::get_if<ClientRefusal>(&request->body)) {
    ++counters_.refused;
    client.output = encode_client_reply(refuse(*request, refusal->status));
    return true;
  }
  client.is_served = true;
  static_cast<void>(served_shares_.take(client.peer.uid));
  requests_.push_back({at->first, client.peer, *request});
  return true;
}

/// Everything that can be done for a client without waiting.
void ClientServer::go_on(Place at) {
  Client& client = at->second;
  while (!client.is_served && client.output.empty()) {
    const auto taken = take_request(at);
    if (!taken) {
      drop(at, taken.error());
      return;
    }
    if (!*taken) {
      break;
    }
    if (!client.output.empty()) {
      send_to(at);
      return;
    }
  }
  const bool is_waiting_for_more = !client.is_served && !client.is_queued && client.output.empty();
  if (is_waiting_for_more && client.has_ended) {
    drop(at,
         client.input.empty()
             ? std::nullopt
             : std::optional(Error::make(
                   Errc::Malformed, "ACM client (pid %d, uid %u) ended %zu bytes into a request",
                   client.peer.pid, client.peer.uid, client.input.size())));
    return;
  }
  if (!is_waiting_for_more || client.input.empty()) {
    set_deadline(at, std::nullopt);
  } else if (!client.deadline.has_value()) {
    set_deadline(at, now_ + limits_.half_request);
  }
  const std::uint32_t wanted =
      (is_waiting_for_more ? EPOLLIN : 0U) | (client.output.empty() ? 0U : EPOLLOUT);
  if (wanted != client.watched) {
    if (!watch(EPOLL_CTL_MOD, client.socket.value(), at->first, wanted)) {
      drop(at, Error::system(Errc::NoResources, errno, "watching an ACM client"));
      return;
    }
    client.watched = wanted;
  }
}

void ClientServer::reply(ClientId client, const ClientReply& reply) {
  const auto at = clients_.find(client);
  if (at == clients_.end()) {
    end_orphan(client);
    return;
  }
  WIREUP_CHECK(at->second.is_served);
  const uid_t user = at->second.peer.uid;
  at->second.is_served = false;
  at->second.output = encode_client_reply(reply);
  send_to(at);
  end_served(user);
}

void ClientServer::end_orphan(ClientId client) {
  if (const auto at = orphans_.find(client); at != orphans_.end()) {
    const uid_t user = at->second;
    orphans_.erase(at);
    end_served(user);
  }
}

void ClientServer::end_served(uid_t user) {
  served_shares_.give_back(user);
  while (!served_shares_.is_full(user)) {
    const auto queue = queued_.find(user);
    if (queue == queued_.end()) {
      return;
    }
    const auto next = clients_.find(queue->second.front());
    queue->second.pop_front();
    if (queue->second.empty()) {
      queued_.erase(queue);
    }
    if (next != clients_.end()) {
      next->second.is_queued = false;
      go_on(next);
    }
  }
}

void ClientServer::send_to(Place at) {
  Client& client = at->second;
  while (client.sent < client.output.size()) {
    const ssize_t sent = send(client.socket.value(), client.output.data() + client.sent,
                              client.output.size() - client.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
      drop(at, std::nullopt);
      return;
    }
    if (sent < 0) {
      go_on(at);
      return;
    }
    client.sent += static_cast<std::size_t>(sent);
  }
  client.output.clear();
  client.sent = 0;
  go_on(at);
}

void ClientServer::set_deadline(Place at, std::optional<Instant> deadline) {
  Client& client = at->second;
  if (client.deadline.has_value()) {
    deadlines_.erase({*client.deadline, at->first});
  }
  client.deadline = deadline;
  if (deadline.has_value()) {
    deadlines_.emplace(*deadline, at->first);
  }
}

void ClientServer::drop(Place at, const std::optional<Error>& why) {
  set_deadline(at, std::nullopt);
  if (why.has_value()) {
    ++counters_.expelled;
  }
  gone_.push_back({at->first, at->second.peer, why});
  const uid_t user = at->second.peer.uid;
  if (at->second.is_served) {
    orphans_.emplace(at->first, user);
  }
  clients_.erase(at);
  client_shares_.give_back(user);
  if (paused_until_.has_value()) {
    resume_accepting();
  }
}

std::optional<ClientServer::Request> ClientServer::poll_request() {
  while (!requests_.empty()) {
    Request request = requests_.front();
    requests_.pop_front();
    if (clients_.find(request.client) != clients_.end()) {
      return request;
    }
    end_orphan(request.client);
  }
  return std::nullopt;
}

std::optional<ClientServer::Gone> ClientServer::poll_gone() {
  if (gone_.empty()) {
    return std::nullopt;
  }
  Gone gone = gone_.front();
  gone_.pop_front();
  return gone;
}

}  // namespace wireup::acm
