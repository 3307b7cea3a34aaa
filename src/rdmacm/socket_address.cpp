// SPDX-License-Identifier: BSD-3-Clause
#include "rdmacm/socket_address.hpp"

#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace wireup::rdmacm {
namespace {

constexpr std::array<std::uint8_t, 12> kIpv4Prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr std::uint64_t kPortMask = ~kPortSpaceMask;

SocketAddress of_ib(const IbAddress& address, std::uint64_t service, std::uint64_t mask) noexcept {
  SocketAddress to{};
  // The union's first member is shorter than the others.
  std::memset(&to, 0, sizeof(to));
  to.ib.sib_family = AF_IB;
  to.ib.sib_pkey = htons(address.pkey.value());
  std::copy(address.gid.bytes().begin(), address.gid.bytes().end(), to.ib.sib_addr.sib_raw);
  to.ib.sib_sid = htobe64(service);
  to.ib.sib_sid_mask = htobe64(mask);
  return to;
}

SocketAddress of_ip(const IpAddress& address) noexcept {
  SocketAddress to{};
  std::memset(&to, 0, sizeof(to));
  const Gid::Bytes& bytes = address.gid.bytes();
  if (std::equal(kIpv4Prefix.begin(), kIpv4Prefix.end(), bytes.begin())) {
    to.ipv4.sin_family = AF_INET;
    to.ipv4.sin_port = htons(address.port);
    std::memcpy(&to.ipv4.sin_addr, bytes.data() + kIpv4Prefix.size(), 4);
    return to;
  }
  to.ipv6.sin6_family = AF_INET6;
  to.ipv6.sin6_port = htons(address.port);
  std::memcpy(&to.ipv6.sin6_addr, bytes.data(), bytes.size());
  if (IN6_IS_ADDR_LINKLOCAL(&to.ipv6.sin6_addr)) {
    to.ipv6.sin6_scope_id = address.scope_id;
  }
  return to;
}

Gid to_gid(const std::uint8_t* bytes) noexcept {
  Gid::Bytes copy{};
  std::copy_n(bytes, copy.size(), copy.begin());
  return Gid(copy);
}

}  // namespace

SocketAddress to_destination(const CmAddress& address) noexcept {
  if (const auto* ib = std::get_if<IbAddress>(&address)) {
    return of_ib(*ib, ib->service.value(), ~std::uint64_t{0});
  }
  return of_ip(std::get<IpAddress>(address));
}

SocketAddress to_source(const CmAddress& address) noexcept {
  if (const auto* ib = std::get_if<IbAddress>(&address)) {
    const std::uint64_t service = ib->service.is_zero() ? kIbPortSpace : ib->service.value();
    const bool any_port = (service & kPortMask) == 0;
    return of_ib(*ib, service, any_port ? kPortSpaceMask : ~std::uint64_t{0});
  }
  return of_ip(std::get<IpAddress>(address));
}

std::optional<CmAddress> from_socket(const sockaddr* address) noexcept {
  SocketAddress from{};
  switch (address->sa_family) {
    case AF_IB: {
      std::memcpy(&from.ib, address, sizeof(from.ib));
      IbAddress ib;
      ib.gid = to_gid(from.ib.sib_addr.sib_raw);
      ib.pkey = PKey(ntohs(from.ib.sib_pkey));
      ib.service = ServiceId(be64toh(from.ib.sib_sid));
      return ib;
    }
    case AF_INET: {
      std::memcpy(&from.ipv4, address, sizeof(from.ipv4));
      Gid::Bytes bytes{};
      std::copy(kIpv4Prefix.begin(), kIpv4Prefix.end(), bytes.begin());
      std::memcpy(bytes.data() + kIpv4Prefix.size(), &from.ipv4.sin_addr, 4);
      return IpAddress{Gid(bytes), ntohs(from.ipv4.sin_port), 0};
    }
    case AF_INET6:
      std::memcpy(&from.ipv6, address, sizeof(from.ipv6));
      return IpAddress{to_gid(from.ipv6.sin6_addr.s6_addr), ntohs(from.ipv6.sin6_port),
                       from.ipv6.sin6_scope_id};
    default:
      return std::nullopt;
  }
}

}  // namespace wireup::rdmacm
