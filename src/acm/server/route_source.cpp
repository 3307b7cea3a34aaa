// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "acm/server/client_service.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {
namespace {

/// Any port will do: nothing is sent.
constexpr std::uint16_t kPort = 7;

template <typename Sockaddr>
bool connect_and_name(int family, Sockaddr& address) {
  const UniqueFd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  socklen_t length = sizeof(address);
  return fd.is_open() &&
         connect(fd.value(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
         getsockname(fd.value(), reinterpret_cast<sockaddr*>(&address), &length) == 0;
}

}  // namespace

std::optional<mad::AcmAddress> route_source(const mad::AcmAddress& destination) {
  if (destination.type() == mad::AcmAddressType::Ipv4) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(kPort);
    std::memcpy(&address.sin_addr, destination.bytes().data(), sizeof(address.sin_addr));
    if (!connect_and_name(AF_INET, address)) {
      return std::nullopt;
    }
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &address.sin_addr, bytes.size());
    return mad::AcmAddress::ipv4(bytes);
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(kPort);
  std::memcpy(&address.sin6_addr, destination.bytes().data(), sizeof(address.sin6_addr));
  if (!connect_and_name(AF_INET6, address)) {
    return std::nullopt;
  }
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), &address.sin6_addr, bytes.size());
  return mad::AcmAddress::ipv6(bytes);
}

}  // namespace wireup::acm
