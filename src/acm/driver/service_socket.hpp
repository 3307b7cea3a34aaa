// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

// The unix seqpacket socket between ranks and the node's resolver. Nothing here blocks.

/// Binds and listens at `path`, replacing what a dead resolver left there: only the holder of the
/// node lock may.
[[nodiscard]] Result<UniqueFd> listen_at(const std::string& path);

/// Connects to `path`. Errc::NotFound: nobody listens there. Errc::Busy: its queue is full.
/// Errc::NoPermission: the listener is neither root nor this user.
[[nodiscard]] Result<UniqueFd> connect_to(const std::string& path);

/// Who is at the other end of a unix socket? Errc::NoPermission: neither root nor this user. `what`
/// names the socket for the message.
[[nodiscard]] Result<> check_peer(int socket, const char* what);

/// The next waiting connection; nothing when none waits. A peer that is neither root nor this user
/// is Errc::NoPermission and is closed.
[[nodiscard]] Result<std::optional<UniqueFd>> accept_from(int listener);

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
