// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/umad/agent_client.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "softhca/umad/passed_descriptor.hpp"

namespace softhca {
namespace {

constexpr int kReplyMs = 10000;

}  // namespace

int connect_agent(const char* dir) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = std::string(dir) + "/" + kAgentSocket;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return -1;
  }
  const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  while (connect(fd, generic, sizeof address) != 0) {
    if (errno != EINTR) {
      const int error = errno;
      close(fd);
      errno = error;
      return -1;
    }
  }
  return fd;
}

int call_agent(int fd, const AgentRequest& request, int pass_fd, AgentReply* reply) {
  const auto bytes = std::as_bytes(std::span(&request, 1));
  if (send_with_descriptor(fd, bytes, pass_fd, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size())) {
    return EIO;
  }
  pollfd wait = {fd, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&wait, 1, kReplyMs);
  } while (ready < 0 && errno == EINTR);
  AgentReply answer;
  if (ready != 1 || recv(fd, &answer, sizeof answer, 0) != static_cast<ssize_t>(sizeof answer) ||
      answer.magic != kAgentMagic) {
    return EIO;
  }
  if (reply != nullptr) {
    *reply = answer;
  }
  return answer.error;
}

int command_agent(int fd, const std::string& words, std::string& reply) {
  AgentRequest request;
  request.op = static_cast<std::uint32_t>(AgentOp::Command);
  std::string message(sizeof request + words.size(), '\0');
  std::memcpy(message.data(), &request, sizeof request);
  std::copy(words.begin(), words.end(), message.begin() + sizeof request);
  if (words.size() > kMaxCommandText) {
    return E2BIG;
  }
  if (send(fd, message.data(), message.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(message.size())) {
    return EIO;
  }
  pollfd wait = {fd, POLLIN, 0};
  AgentReply answer;
  std::string text(sizeof answer + kMaxReplyText, '\0');
  if (::poll(&wait, 1, kReplyMs) != 1) {
    return EIO;
  }
  const ssize_t got = recv(fd, text.data(), text.size(), 0);
  if (got < static_cast<ssize_t>(sizeof answer)) {
    return EIO;
  }
  std::memcpy(&answer, text.data(), sizeof answer);
  reply = text.substr(sizeof answer, static_cast<std::size_t>(got) - sizeof answer);
  return answer.magic == kAgentMagic ? answer.error : EIO;
}

}  // namespace softhca
