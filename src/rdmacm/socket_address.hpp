// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/ib.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "rdmacm/cm_values.hpp"

namespace wireup::rdmacm {

/// An address as librdmacm takes it.
union SocketAddress {
  sockaddr any;
  sockaddr_in ipv4;
  sockaddr_in6 ipv6;
  sockaddr_ib ib;
};

/// Where to connect to: the service is compared as a whole.
[[nodiscard]] SocketAddress to_destination(const CmAddress& address) noexcept;

/// Where to bind to or connect from. The kernel wants one of its port spaces in the service id of
/// either (it refuses others: EPROTONOSUPPORT) and chooses a port where it is 0; a service id of 0
/// stands for any port of the IB space.
[[nodiscard]] SocketAddress to_source(const CmAddress& address) noexcept;

/// The other way; nothing for a family that is neither.
[[nodiscard]] std::optional<CmAddress> from_socket(const sockaddr* address) noexcept;

}  // namespace wireup::rdmacm
