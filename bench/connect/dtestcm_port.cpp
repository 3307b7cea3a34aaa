// SPDX-License-Identifier: BSD-3-Clause
//
// Preloaded into DAPL's dtestcm: its client and server agree on a connection's parameters over one
// fixed TCP port before they begin, so that a host could run one server at a time. Here that port
// is replaced by the one that DTESTCM_PORT names. Nothing of DAPL itself goes through it.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::uint16_t kFixedPort = 15828;

using SocketCall = int (*)(int, const sockaddr*, socklen_t);

int call(const char* name, int fd, const sockaddr* address, socklen_t size) {
  const auto next = reinterpret_cast<SocketCall>(::dlsym(RTLD_NEXT, name));
  const char* wanted = std::getenv("DTESTCM_PORT");
  sockaddr_in replaced{};
  if (wanted == nullptr || address == nullptr || address->sa_family != AF_INET ||
      size < sizeof replaced) {
    return next(fd, address, size);
  }
  std::memcpy(&replaced, address, sizeof replaced);
  if (ntohs(replaced.sin_port) != kFixedPort) {
    return next(fd, address, size);
  }
  replaced.sin_port = htons(static_cast<std::uint16_t>(std::atoi(wanted)));
  return next(fd, reinterpret_cast<const sockaddr*>(&replaced), sizeof replaced);
}

}  // namespace

extern "C" int bind(int fd, const sockaddr* address, socklen_t size) noexcept {
  return call("bind", fd, address, size);
}

extern "C" int connect(int fd, const sockaddr* address, socklen_t size) {
  return call("connect", fd, address, size);
}
