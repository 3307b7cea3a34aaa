// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "acm/server/client_server.hpp"
#include "acm/temporary_directory.hpp"

// The clients' socket of the service with clients in the same process: what one end of a unix
// socket has sent is there for the other at once, so nothing here waits. Time is the test's own.
namespace wireup::acm::test {

using Bytes = std::vector<std::uint8_t>;

inline ClientRequest question(std::uint64_t tid) {
  return {
      ClientOp::Resolve, Tid(tid),
      AddressQuestion{std::nullopt, mad::AcmAddress::ipv4({10, 77, 0, 2}), std::nullopt, false}};
}

inline ClientReply answer(const ClientRequest& request) {
  mad::PathRecord path;
  path.dlid = Lid(static_cast<std::uint16_t>(request.tid.value()));
  return {request.op, request.tid, ClientStatus::Success,
          ResolveReply{{{path_flag::kUniversal, path}}, mad::AcmAddress::ipv4({10, 77, 0, 1})}};
}

/// A client without any wits. Its socket never blocks.
class Socket {
 public:
  explicit Socket(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), std::begin(address.sun_path));
    EXPECT_EQ(connect(fd_.value(), static_cast<const sockaddr*>(static_cast<const void*>(&address)),
                      sizeof(address)),
              0)
        << strerror(errno);
  }
  /// How much of it the socket took.
  std::size_t write(std::span<const std::uint8_t> bytes) {
    const ssize_t sent = send(fd_.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return sent < 0 ? 0 : static_cast<std::size_t>(sent);
  }
  void ask(std::uint64_t tid) {
    const Bytes bytes = encode_client_request(question(tid));
    EXPECT_EQ(write(bytes), bytes.size());
  }
  /// What is there, up to 128 KiB.
  Bytes read() {
    Bytes bytes(1U << 17U);
    const ssize_t size = recv(fd_.value(), bytes.data(), bytes.size(), 0);
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return bytes;
  }
  /// Nothing is to be read, and never will be.
  bool is_at_end() {
    char byte = 0;
    return recv(fd_.value(), &byte, 1, 0) == 0;
  }
  bool has_answer_to(std::uint64_t tid) {
    const Bytes bytes = encode_client_reply(answer(question(tid)));
    Bytes received(bytes.size() + 1);
    const ssize_t size = recv(fd_.value(), received.data(), received.size(), 0);
    received.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return received == bytes;
  }
  void end_sending() { EXPECT_EQ(shutdown(fd_.value(), SHUT_WR), 0); }
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
};

class ClientServerTest : public testing::Test {
 protected:
  void start(const ClientServerLimits& limits = {}) {
    auto listener = listen_client_socket(path(), 0600, {});
    ASSERT_TRUE(listener.has_value()) << listener.error().what();
    auto opened = ClientServer::open(std::move(*listener), limits);
    ASSERT_TRUE(opened.has_value()) << opened.error().what();
    server_.emplace(std::move(*opened));
  }
  [[nodiscard]] std::string path() const { return directory_.path() + "/clients.sock"; }
  ClientServer& server() { return *server_; }
  /// Lets the server do all that it can; it must come to rest.
  void settle() {
    for (int turn = 0; turn < 10000; ++turn) {
      pollfd waiting{server().fd(), POLLIN, 0};
      if (poll(&waiting, 1, 0) == 0) {
        return;
      }
      server().progress(now_);
    }
    FAIL() << "the server's descriptor stays readable";
  }
  void advance(Duration duration) {
    now_ += duration;
    server().progress(now_);
    settle();
  }
  /// Answers everything that is asked; how many requests there were.
  std::size_t serve() {
    std::size_t count = 0;
    settle();
    while (auto request = server().poll_request()) {
      server().reply(request->client, answer(request->request));
      ++count;
      settle();
    }
    return count;
  }
  /// Why the only client that has gone went; an empty text when by itself.
  std::string why_gone() {
    const auto gone = server().poll_gone();
    EXPECT_TRUE(gone.has_value());
    EXPECT_FALSE(server().poll_gone().has_value());
    return gone.has_value() && gone->why.has_value() ? std::string(gone->why->what()) : "";
  }

  TemporaryDirectory directory_;
  std::optional<ClientServer> server_;
  Instant now_{std::chrono::seconds(1000)};
};

}  // namespace wireup::acm::test
