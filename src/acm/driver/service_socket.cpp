// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/service_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.hpp"

namespace wireup::acm {
namespace {

constexpr int kBacklog = 1024;
constexpr const char* kWhose = "the resolver's socket";

sockaddr_un address_of(const std::string& path) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // NodeDirectory has checked the length.
  WIREUP_CHECK(path.size() < sizeof(address.sun_path));
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  return address;
}

Result<UniqueFd> make_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "making a unix socket"));
  }
  return fd;
}

}  // namespace

Result<uid_t> check_peer(int socket, const char* what, Audience audience) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return fail(Error::system(Errc::NoPermission, errno, "asking who is behind %s", what));
  }
  if (audience == Audience::OwnUser && peer.uid != 0 && peer.uid != geteuid()) {
    return fail(Error::make(Errc::NoPermission,
                            "process %d behind %s belongs to uid %u, neither root nor uid %u",
                            peer.pid, what, peer.uid, geteuid()));
  }
  return peer.uid;
}

Result<UniqueFd> listen_at(const std::string& path, Audience audience) {
  auto fd = make_socket();
  if (!fd) {
    return fail(fd.error());
  }
  const sockaddr_un address = address_of(path);
  unlink(path.c_str());
  if (bind(fd->value(), static_cast<const sockaddr*>(static_cast<const void*>(&address)),
           sizeof(address)) != 0) {
    return fail(
        Error::system(Errc::NoPermission, errno, "binding the resolver's socket %s", path.c_str()));
  }
  // Nobody can connect before it listens, so nobody sees it with other rights.
  if (audience == Audience::Everybody && chmod(path.c_str(), 0666) != 0) {
    return fail(Error::system(Errc::NoPermission, errno, "opening %s to all users", path.c_str()));
  }
  if (listen(fd->value(), kBacklog) != 0) {
    return fail(Error::system(Errc::NoResources, errno, "listening at %s", path.c_str()));
  }
  return fd;
}

Result<UniqueFd> connect_to(const std::string& path) {
  auto fd = make_socket();
  if (!fd) {
    return fail(fd.error());
  }
  const sockaddr_un address = address_of(path);
  if (connect(fd->value(), static_cast<const sockaddr*>(static_cast<const void*>(&address)),
              sizeof(address)) != 0) {
    const int error = errno;
    const Errc kind = error == ENOENT || error == ECONNREFUSED ? Errc::NotFound
                      : error == EAGAIN                        ? Errc::Busy
                                                               : Errc::NoPermission;
    return fail(Error::system(kind, error, "connecting to the resolver at %s", path.c_str()));
  }
  if (auto checked = check_peer(fd->value(), kWhose); !checked) {
    return fail(checked.error());
  }
  return fd;
}

Result<std::optional<AcceptedRank>> accept_from(int listener, Audience audience) {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.is_open()) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) {
      return std::optional<AcceptedRank>();
    }
    return fail(Error::system(Errc::NoResources, errno, "accepting a rank at the resolver"));
  }
  const auto user = check_peer(fd.value(), kWhose, audience);
  if (!user) {
    return fail(user.error());
  }
  return std::optional<AcceptedRank>(AcceptedRank{std::move(fd), *user});
}

SendOutcome send_packet(int socket, std::span<const std::uint8_t> packet) noexcept {
  const ssize_t sent = send(socket, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) {
    return SendOutcome::Sent;
  }
  return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? SendOutcome::WouldBlock
                                                               : SendOutcome::Closed;
}

ReceivedPacket receive_packet(int socket, std::span<std::uint8_t> buffer) noexcept {
  iovec vector{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  const ssize_t size = recvmsg(socket, &header, MSG_DONTWAIT);
  if (size > 0) {
    return {ReceiveOutcome::Received, static_cast<std::size_t>(size),
            (header.msg_flags & MSG_TRUNC) != 0};
  }
  // Neither side sends empty packets, so an empty one is the end.
  if (size == 0) {
    return {ReceiveOutcome::Closed, 0, false};
  }
  return {errno == EAGAIN || errno == EINTR ? ReceiveOutcome::WouldBlock : ReceiveOutcome::Closed,
          0, false};
}

}  // namespace wireup::acm
