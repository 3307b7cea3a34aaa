// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/umad/agent_client.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

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
  AgentRequest copy = request;
  iovec part = {&copy, sizeof copy};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> ancillary{};
  if (pass_fd >= 0) {
    message.msg_control = ancillary.data();
    message.msg_controllen = ancillary.size();
    cmsghdr* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &pass_fd, sizeof pass_fd);
  }
  if (sendmsg(fd, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof copy)) {
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

}  // namespace softhca
