// SPDX-License-Identifier: BSD-3-Clause
// ask_names SOCKET SOURCE SECONDS < NAMES: asks an ACM service, ibacm or wireup, for
// each name of its input once, over a connection each, all at the same time. Prints
// {"ms": …, "resolved": …, "asked": …}: time until the last answer, and how many were paths.
//
// It speaks ibacm's client protocol as librdmacm does: one request and one reply at a time on a
// connection. The connections are made before the clock starts.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "acm/server/client_message.hpp"
#include "base/unique_fd.hpp"
#include "figures.hpp"

namespace {

using namespace wireup;

struct Asked {
  UniqueFd socket;
  acm::ClientRequest request;
  std::vector<std::uint8_t> reply;
};

[[noreturn]] void give_up(const char* what, std::string_view why) {
  std::fprintf(stderr, "ask_names: %s: %s\n", what, std::string(why).c_str());
  std::exit(1);
}

mad::AcmAddress name_of(const std::string& text) {
  const auto name = mad::AcmAddress::name(text);
  if (!name) {
    give_up("name", text);
  }
  return *name;
}

UniqueFd connect_to(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof(address.sun_path)) {
    give_up("socket's name is too long", path);
  }
  std::memcpy(address.sun_path, path, std::strlen(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Blocking: ibacm's queue of connections has no length.
  if (!fd.is_open() || connect(fd.value(), static_cast<sockaddr*>(static_cast<void*>(&address)),
                               sizeof(address)) != 0) {
    give_up(path, std::strerror(errno));
  }
  return fd;
}

void send(const Asked& asked) {
  const auto bytes = acm::encode_client_request(asked.request);
  // In one piece: ibacm takes what one recv() gives for the whole request.
  if (::send(asked.socket.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size())) {
    give_up("sending a request", std::strerror(errno));
  }
}

/// Takes what came; the status when the reply is whole.
std::optional<acm::ClientStatus> receive(Asked& asked) {
  std::array<std::uint8_t, acm::kMaxClientRequest> bytes{};
  const ssize_t got = recv(asked.socket.value(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got <= 0) {
    give_up("waiting for a reply", got == 0 ? "the service hung up" : std::strerror(errno));
  }
  asked.reply.insert(asked.reply.end(), bytes.begin(), bytes.begin() + got);
  if (asked.reply.size() < acm::kClientHeaderSize) {
    return std::nullopt;
  }
  const auto size = acm::client_reply_size(
      std::span<const std::uint8_t>(asked.reply).first<acm::kClientHeaderSize>());
  if (!size) {
    give_up("a reply", size.error().what());
  }
  if (asked.reply.size() < *size) {
    return std::nullopt;
  }
  const auto reply = acm::decode_client_reply(asked.reply);
  if (!reply) {
    give_up("a reply", reply.error().what());
  }
  return reply->status;
}

int ask_all(int argc, char** argv) {
  const int seconds = argc == 4 ? std::atoi(argv[3]) : 0;
  if (seconds < 1) {
    std::fputs("usage: ask_names SOCKET SOURCE SECONDS < NAMES\n", stderr);
    return 2;
  }
  std::vector<Asked> asked;
  for (std::string name; std::cin >> name;) {
    acm::ClientRequest request;
    request.tid = Tid(asked.size() + 1);
    request.body = acm::AddressQuestion{name_of(argv[2]), name_of(name), std::nullopt, false};
    asked.push_back({connect_to(argv[1]), request, {}});
  }
  std::vector<pollfd> descriptors;
  const auto start = bench::Clock::now();
  for (const Asked& each : asked) {
    send(each);
    descriptors.push_back({each.socket.value(), POLLIN, 0});
  }
  std::size_t left = asked.size();
  std::size_t resolved = 0;
  double took_us = 0;
  while (left > 0) {
    const double gone_ms = bench::microseconds_since(start) / 1000;
    const double rest_ms = seconds * 1000.0 - gone_ms;
    if (rest_ms <= 0 ||
        poll(descriptors.data(), descriptors.size(), static_cast<int>(rest_ms) + 1) <= 0) {
      break;
    }
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      if (descriptors[i].revents == 0) {
        continue;
      }
      if (const auto status = receive(asked[i])) {
        took_us = bench::microseconds_since(start);
        resolved += *status == acm::ClientStatus::Success ? 1 : 0;
        --left;
        // poll() passes over it.
        descriptors[i].fd = -1;
      }
    }
  }
  std::printf("{\"ms\": %.3f, \"resolved\": %zu, \"asked\": %zu}\n", took_us / 1000, resolved,
              asked.size());
  return left == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return ask_all(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ask_names: %s\n", error.what());
    return 1;
  }
}
