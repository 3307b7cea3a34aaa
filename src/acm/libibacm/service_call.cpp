// SPDX-License-Identifier: BSD-3-Clause
#include "acm/libibacm/service_call.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {
namespace {

class Connection {
 public:
  Connection(const std::string& path, Instant deadline) : path_(path), deadline_(deadline) {}

  [[nodiscard]] Result<> open() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof(address.sun_path)) {
      return wireup::fail(Error::make(Errc::InvalidArgument,
                                      "socket path of %zu bytes, at most %zu fit: %.100s",
                                      path_.size(), sizeof(address.sun_path) - 1, path_.c_str()));
    }
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    fd_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd_.is_open()) {
      return wireup::fail(Error::system(Errc::NoResources, errno, "making a socket"));
    }
    // A unix socket connects at once or, with a full queue, says EAGAIN.
    while (connect(fd_.value(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
           0) {
      if (errno == EAGAIN) {
        if (auto paused = pause(); !paused) {
          return paused;
        }
      } else if (errno != EINTR) {
        const Errc code = errno == EACCES ? Errc::NoPermission : Errc::NotFound;
        return wireup::fail(Error::system(code, errno, "connecting to %s", path_.c_str()));
      }
    }
    return {};
  }

  [[nodiscard]] Result<> send(std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
      } else if (auto ready = wait_after_error(POLLOUT); !ready) {
        return ready;
      }
    }
    return {};
  }

  [[nodiscard]] Result<> receive(std::span<std::uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t got = recv(fd_.value(), bytes.data(), bytes.size(), 0);
      if (got > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(got));
      } else if (got == 0) {
        return wireup::fail(
            Error::make(Errc::PeerGone, "the service at %s hung up", path_.c_str()));
      } else if (auto ready = wait_after_error(POLLIN); !ready) {
        return ready;
      }
    }
    return {};
  }

 private:
  [[nodiscard]] Result<> timed_out() const {
    return wireup::fail(
        Error::make(Errc::Timeout, "the service at %s did not answer in time", path_.c_str()));
  }

  [[nodiscard]] Result<> pause() const {
    constexpr int kPauseMs = 10;
    poll(nullptr, 0, kPauseMs);
    return monotonic_now() < deadline_ ? Result<>() : timed_out();
  }

  /// After a call that failed with errno: waits until it is worth another try.
  [[nodiscard]] Result<> wait_after_error(short events) const {
    if (errno == EINTR) {
      return {};
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      return wireup::fail(
          Error::system(Errc::PeerGone, errno, "talking to the service at %s", path_.c_str()));
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - monotonic_now()).count();
    if (left <= 0) {
      return timed_out();
    }
    pollfd descriptor{fd_.value(), events, 0};
    constexpr std::int64_t kLongest = 60'000;
    poll(&descriptor, 1, static_cast<int>(std::min(left, kLongest)));
    return {};
  }

  const std::string& path_;
  Instant deadline_;
  UniqueFd fd_;
};

}  // namespace

Result<ClientReply> call_service(const std::string& path, const ClientRequest& request,
                                 Instant deadline) {
  Connection connection(path, deadline);
  if (auto opened = connection.open(); !opened) {
    return fail(opened.error());
  }
  if (auto sent = connection.send(encode_client_request(request)); !sent) {
    return fail(sent.error());
  }
  std::vector<std::uint8_t> bytes(kClientHeaderSize);
  if (auto received = connection.receive(bytes); !received) {
    return fail(received.error());
  }
  const auto size = client_reply_size(ClientHeaderBytes(bytes));
  if (!size) {
    return fail(size.error());
  }
  bytes.resize(*size);
  if (auto received = connection.receive(std::span(bytes).subspan(kClientHeaderSize)); !received) {
    return fail(received.error());
  }
  auto reply = decode_client_reply(bytes);
  if (reply && reply->tid != request.tid) {
    return fail(Error::make(
        Errc::Malformed, "the service at %s answered a request that was not made", path.c_str()));
  }
  return reply;
}

}  // namespace wireup::acm
