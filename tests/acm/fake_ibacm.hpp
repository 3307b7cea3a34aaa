// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "acm/server/client_message.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm::test {

/// The service's end of one client's connection, by hand. Both ends are in one process: what one
/// has sent is there for the other at once.
class FakeSession {
 public:
  explicit FakeSession(UniqueFd fd) : fd_(std::move(fd)) {}

  /// All that the client has sent and that was not read yet.
  [[nodiscard]] std::vector<std::uint8_t> read() {
    std::vector<std::uint8_t> bytes(1U << 16U);
    const ssize_t got = recv(fd_.value(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  /// Exactly one request must be there.
  [[nodiscard]] ClientRequest request() {
    const auto bytes = read();
    const auto decoded = decode_client_request(bytes);
    EXPECT_TRUE(decoded.has_value()) << bytes.size() << " bytes";
    return decoded ? *decoded : ClientRequest{};
  }
  void write(std::span<const std::uint8_t> bytes) {
    EXPECT_EQ(send(fd_.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT),
              static_cast<ssize_t>(bytes.size()));
  }
  void reply(const ClientReply& reply) { write(encode_client_reply(reply)); }
  void refuse(const ClientRequest& request, ClientStatus status) {
    reply(acm::refuse(request, status));
  }
  void give(const ClientRequest& request, const mad::PathRecord& path) {
    reply({request.op, request.tid, ClientStatus::Success,
           ResolveReply{{{path_flag::kUniversal, path}}, std::nullopt}});
  }
  /// The client has closed it.
  [[nodiscard]] bool is_at_end() {
    char byte = 0;
    return recv(fd_.value(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }

 private:
  UniqueFd fd_;
};

/// A service that does nothing by itself.
class FakeIbacm {
 public:
  explicit FakeIbacm(std::string path, int backlog = 64) : path_(std::move(path)) {
    unlink(path_.c_str());
    fd_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un address = address_of(path_);
    EXPECT_EQ(bind(fd_.value(), generic(address), sizeof(address)), 0) << strerror(errno);
    EXPECT_EQ(listen(fd_.value(), backlog), 0) << strerror(errno);
  }
  ~FakeIbacm() { unlink(path_.c_str()); }
  FakeIbacm(const FakeIbacm&) = delete;
  FakeIbacm& operator=(const FakeIbacm&) = delete;

  /// The next connection that waits.
  [[nodiscard]] std::optional<FakeSession> accept() {
    UniqueFd fd(::accept4(fd_.value(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    return fd.is_open() ? std::optional(FakeSession(std::move(fd))) : std::nullopt;
  }
  /// Which must be there.
  [[nodiscard]] FakeSession session() {
    auto session = accept();
    EXPECT_TRUE(session.has_value()) << "nobody has connected";
    return session.has_value() ? std::move(*session) : FakeSession(UniqueFd());
  }
  /// A client that does nothing.
  [[nodiscard]] static UniqueFd connect_to(const std::string& path) {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un address = address_of(path);
    EXPECT_EQ(connect(fd.value(), generic(address), sizeof(address)), 0) << strerror(errno);
    return fd;
  }

 private:
  static sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), std::begin(address.sun_path));
    return address;
  }
  static const sockaddr* generic(const sockaddr_un& address) {
    return static_cast<const sockaddr*>(static_cast<const void*>(&address));
  }

  std::string path_;
  UniqueFd fd_;
};

}  // namespace wireup::acm::test
