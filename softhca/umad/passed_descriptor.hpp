// SPDX-License-Identifier: BSD-3-Clause
// A file descriptor that travels with a message of a unix socket.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca {

/// Room for the control data of a message with one descriptor.
struct DescriptorRoom {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

/// Sends `data`, with a descriptor that stays the caller's, or -1 for none. As sendmsg(2).
ssize_t send_with_descriptor(int socket, std::span<const std::byte> data, int descriptor,
                             int flags);

/// The descriptor in a message that recvmsg(2) has filled in, which is the caller's from now on; -1
/// when it has none.
int passed_descriptor(msghdr& message);

}  // namespace softhca
