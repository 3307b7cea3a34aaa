// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/ibacm_client.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "acm/driver/service_socket.hpp"
#include "base/check.hpp"
#include "base/epoll.hpp"

namespace wireup::acm {
namespace {

/// The longest answer to an endpoint query is what a header's length can say; every other one fits
/// a request's bounds.
std::size_t longest_reply(ClientOp op) noexcept {
  return op == ClientOp::EndpointQuery ? UINT16_MAX : kMaxClientRequest;
}

/// Errc::NotFound: nobody listens. Errc::Busy: its queue of connections is full.
Result<UniqueFd> connect_stream(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "making a socket"));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  // A unix socket connects at once or, with a full queue, says EAGAIN.
  while (connect(fd.value(), static_cast<const sockaddr*>(static_cast<const void*>(&address)),
                 sizeof(address)) != 0) {
    if (errno == EINTR) {
      continue;
    }
    const Errc kind = errno == EAGAIN                     ? Errc::Busy
                      : errno == EACCES || errno == EPERM ? Errc::NoPermission
                                                          : Errc::NotFound;
    return fail(Error::system(kind, errno, "connecting to %s", path.c_str()));
  }
  return fd;
}

constexpr std::size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

bool has_listener(const std::string& socket) {
  if (socket.empty() || socket.size() > kMaxPath) {
    return false;
  }
  const auto fd = connect_stream(socket);
  return fd.has_value() || fd.error().is(Errc::Busy);
}

Result<IbacmClient> IbacmClient::open(const Options& options) {
  WIREUP_CHECK(options.connections > 0 && options.tries > 0);
  if (options.socket.size() > kMaxPath) {
    return fail(Error::make(Errc::InvalidArgument,
                            "socket path of %zu bytes, at most %zu fit: %.100s",
                            options.socket.size(), kMaxPath, options.socket.c_str()));
  }
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "making an epoll descriptor"));
  }
  return IbacmClient(options, std::move(epoll));
}

IbacmClient::IbacmClient(const Options& options, UniqueFd epoll) noexcept
    : options_(options), epoll_(std::move(epoll)), reconnect_wait_(options.first_reconnect) {}

void IbacmClient::ask(const ClientRequest& request, Instant deadline, Instant now) {
  const bool is_new = questions_.emplace(request.tid, Question{request, deadline, 0}).second;
  WIREUP_CHECK(is_new);
  waiting_.push_back(request.tid);
  send_waiting(now);
}

std::optional<IbacmClient::Answer> IbacmClient::poll_answer() {
  if (answers_.empty()) {
    return std::nullopt;
  }
  Answer answer = std::move(answers_.front());
  answers_.pop_front();
  return answer;
}

void IbacmClient::progress(Instant now) {
  for (Connection& connection : connections_) {
    receive(connection);
  }
  std::erase_if(connections_,
                [](const Connection& connection) { return !connection.fd.is_open(); });
  expire(now);
  send_waiting(now);
}

std::optional<Instant> IbacmClient::poll_timeout() const {
  if (!answers_.empty()) {
    return Instant();
  }
  std::optional<Instant> earliest;
  for (const auto& [tid, question] : questions_) {
    earliest = std::min(earliest.value_or(question.deadline), question.deadline);
  }
  // While all connections are busy there is nothing to connect for.
  if (!waiting_.empty() && connections_.size() < options_.connections) {
    earliest = std::min(*earliest, next_connect_);
  }
  return earliest;
}

void IbacmClient::expire(Instant now) {
  for (auto at = questions_.begin(); at != questions_.end();) {
    const auto here = at++;
    if (here->second.deadline > now) {
      continue;
    }
    const Tid tid = here->first;
    // Its answer could still come and would then be taken for that of the next question.
    std::erase_if(connections_, [tid](const Connection& c) { return c.asked == tid; });
    std::erase(waiting_, tid);
    finish(tid, fail(absent_since_.has_value() ? absence_ : timed_out()));
  }
}

void IbacmClient::send_waiting(Instant now) {
  while (!waiting_.empty()) {
    Connection* connection = free_connection(now);
    if (connection == nullptr) {
      return;
    }
    const Tid tid = waiting_.front();
    waiting_.pop_front();
    Question& question = questions_.at(tid);
    ++question.tries;
    connection->asked = tid;
    connection->buffer.assign(kClientHeaderSize, 0);
    connection->received = 0;
    // Nothing else is on its way there, so that the socket has room for all of it.
    const auto bytes = encode_client_request(question.request);
    const ssize_t sent =
        send(connection->fd.value(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(bytes.size())) {
      hung_up(*connection, Error::system(Errc::PeerGone, sent < 0 ? errno : EMSGSIZE,
                                         "asking the service at %s", options_.socket.c_str()));
      std::erase_if(connections_, [](const Connection& c) { return !c.fd.is_open(); });
    }
  }
}

/// An idle connection, or a new one where there may be one more; nullptr: the question waits, or
/// has failed for want of a service.
IbacmClient::Connection* IbacmClient::free_connection(Instant now) {
  const auto idle = std::find_if(connections_.begin(), connections_.end(),
                                 [](const Connection& c) { return !c.asked.has_value(); });
  if (idle != connections_.end()) {
    return &*idle;
  }
  if (connections_.size() >= options_.connections) {
    return nullptr;
  }
  if (next_connect_ > now) {
    // Who comes between two attempts learns what the last one found.
    if (absent_since_.has_value()) {
      note_absence(absence_, now);
    }
    return nullptr;
  }
  auto fd = connect();
  if (!fd) {
    next_connect_ = now + reconnect_wait_;
    reconnect_wait_ = std::min(reconnect_wait_ * 2, options_.max_reconnect);
    // A full queue of connections is no absence.
    if (!fd.error().is(Errc::Busy)) {
      note_absence(fd.error(), now);
    }
    return nullptr;
  }
  absent_since_.reset();
  was_there_ = true;
  reconnect_wait_ = options_.first_reconnect;
  connections_.push_back({std::move(*fd), std::nullopt, {}, 0});
  return &connections_.back();
}

Result<UniqueFd> IbacmClient::connect() const {
  auto fd = connect_stream(options_.socket);
  if (!fd) {
    return fail(fd.error());
  }
  if (options_.check_owner) {
    if (auto checked = check_peer(fd->value(), options_.socket.c_str()); !checked) {
      return fail(checked.error());
    }
  }
  if (!watch_readable(epoll_, fd->value())) {
    return fail(Error::system(Errc::NoResources, errno, "watching a socket"));
  }
  return fd;
}

/// The service cannot be reached. What waits for it fails, unless it may be back in a moment.
void IbacmClient::note_absence(const Error& error, Instant now) {
  absence_ = error;
  if (!absent_since_.has_value()) {
    absent_since_ = now;
  }
  if (was_there_ && now - *absent_since_ < options_.absence) {
    return;
  }
  for (const Tid tid : std::exchange(waiting_, {})) {
    finish(tid, fail(error));
  }
}

void IbacmClient::receive(Connection& connection) {
  while (connection.fd.is_open()) {
    // Without a question there is nothing to come but the end.
    std::uint8_t unasked = 0;
    std::uint8_t* const to =
        connection.asked.has_value() ? connection.buffer.data() + connection.received : &unasked;
    const std::size_t room =
        connection.asked.has_value() ? connection.buffer.size() - connection.received : 1;
    const ssize_t got = recv(connection.fd.value(), to, room, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 && errno == EAGAIN) {
      return;
    }
    if (got <= 0 || !connection.asked.has_value()) {
      hung_up(connection, got < 0
                              ? Error::system(Errc::PeerGone, errno, "talking to the service at %s",
                                              options_.socket.c_str())
                              : Error::make(Errc::PeerGone, "the service at %s hung up",
                                            options_.socket.c_str()));
      return;
    }
    connection.received += static_cast<std::size_t>(got);
    if (connection.received < connection.buffer.size()) {
      continue;
    }
    if (auto taken = take(connection); !taken) {
      finish(*std::exchange(connection.asked, std::nullopt), fail(taken.error()));
      connection.fd.reset();
    }
  }
}

/// The header, or the whole of an answer, is there. An error: what came is none.
Result<> IbacmClient::take(Connection& connection) {
  const ClientRequest& request = questions_.at(*connection.asked).request;
  if (connection.buffer.size() == kClientHeaderSize) {
    const auto size = client_reply_size(
        std::span<const std::uint8_t>(connection.buffer).first<kClientHeaderSize>());
    if (!size) {
      return wireup::fail(size.error());
    }
    if (*size > longest_reply(request.op)) {
      return wireup::fail(Error::make(Errc::Malformed,
                                      "an answer of %zu bytes from %s, at most %zu are one", *size,
                                      options_.socket.c_str(), longest_reply(request.op)));
    }
    if (*size > kClientHeaderSize) {
      connection.buffer.resize(*size);
      return {};
    }
  }
  const auto reply = decode_client_reply(connection.buffer);
  if (!reply) {
    return wireup::fail(reply.error());
  }
  if (reply->tid != request.tid || reply->op != request.op) {
    return wireup::fail(Error::make(Errc::Malformed,
                                    "the service at %s answered a request that was not made",
                                    options_.socket.c_str()));
  }
  connection.asked.reset();
  finish(request.tid, *reply);
  return {};
}

/// The connection is lost; its question is put again on another one, ahead of those that wait.
void IbacmClient::hung_up(Connection& connection, const Error& why) {
  connection.fd.reset();
  const auto asked = std::exchange(connection.asked, std::nullopt);
  if (!asked.has_value()) {
    return;
  }
  if (questions_.at(*asked).tries < options_.tries) {
    waiting_.push_front(*asked);
  } else {
    finish(*asked, fail(why));
  }
}

void IbacmClient::finish(Tid tid, const Result<ClientReply>& reply) {
  questions_.erase(tid);
  answers_.push_back({tid, reply});
}

Error IbacmClient::timed_out() const {
  return Error::make(Errc::Timeout, "the service at %s did not answer in time",
                     options_.socket.c_str());
}

}  // namespace wireup::acm
