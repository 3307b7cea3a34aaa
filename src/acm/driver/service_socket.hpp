// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "acm/driver/node_directory.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

// The unix seqpacket socket between ranks and the node's resolver. Nothing here blocks.

/// Binds and listens at `path`, replacing what a dead resolver left there: only the holder of the
/// node lock may.
[[nodiscard]] Result<UniqueFd> listen_at(const std::string& path,
                                         Audience audience = Audience::OwnUser);

/// Connects to `path`. Errc::NotFound: nobody listens there. Errc::Busy: its queue is full.
/// Errc::NoPermission: the listener is neither root nor this user.
[[nodiscard]] Result<UniqueFd> connect_to(const std::string& path);

/// Whose process is at the other end of a unix socket? Errc::NoPermission: neither root's nor this
/// user's, unless the audience is everybody. `what` names the socket for the message.
[[nodiscard]] Result<uid_t> check_peer(int socket, const char* what,
                                       Audience audience = Audience::OwnUser);

struct AcceptedRank {
  UniqueFd socket;
  /// Whose process is behind it, as the kernel says.
  uid_t user = 0;
};
/// The next waiting connection; nothing when none waits. Unless the audience is everybody, a peer
/// that is neither root nor this user is Errc::NoPermission and is closed.
[[nodiscard]] Result<std::optional<AcceptedRank>> accept_from(
    int listener, Audience audience = Audience::OwnUser);

enum class SendOutcome : std::uint8_t { Sent, WouldBlock, Closed };
[[nodiscard]] SendOutcome send_packet(int socket, std::span<const std::uint8_t> packet) noexcept;

enum class ReceiveOutcome : std::uint8_t { Received, WouldBlock, Closed };
struct ReceivedPacket {
  ReceiveOutcome outcome = ReceiveOutcome::WouldBlock;
  /// Bytes in the buffer; a packet longer than it is cut and `is_cut`.
  std::size_t size = 0;
  bool is_cut = false;
};
[[nodiscard]] ReceivedPacket receive_packet(int socket, std::span<std::uint8_t> buffer) noexcept;

}  // namespace wireup::acm
