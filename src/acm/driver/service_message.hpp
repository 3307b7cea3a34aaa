// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "acm/engine/path.hpp"
#include "base/error.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

// Messages between a rank and the node's resolver, one a packet of a seqpacket socket. They never
// leave the node, but are checked like everything that comes from a socket. Big-endian.

/// Flush makes the whole cache void, and has no reply: the cache's generation tells. Only of root
/// and the resolver's user.
enum class ServiceOp : std::uint8_t { Resolve = 1, PathFailed = 2, Flush = 3, Resolved = 0x81 };

/// What a rank asks for: a key, or an address (a name, say) whose GID it does not know. Then the
/// key's DGID is zero, and the answer's path tells it.
struct RankQuestion {
  PathKey key;
  std::optional<mad::AcmAddress> address;
  friend auto operator<=>(const RankQuestion&, const RankQuestion&) noexcept = default;
};

/// "GID fe80:...", "name node7".
[[nodiscard]] std::string to_text(const RankQuestion& question);

struct ServiceRequest {
  static constexpr std::size_t kSize = 128;
  ServiceOp op = ServiceOp::Resolve;
  RankQuestion question;
  /// Until when the asker waits, on CLOCK_MONOTONIC, which all processes of a node share (a time
  /// from now would move by what the message waits in a queue). Only of Resolve.
  Instant deadline;
  friend bool operator==(const ServiceRequest&, const ServiceRequest&) noexcept = default;
};

struct ServiceReply {
  static constexpr std::size_t kSize = 448;
  RankQuestion question;
  Result<ResolvedPath> path;
};

using ServiceRequestBytes = std::array<std::uint8_t, ServiceRequest::kSize>;
using ServiceReplyBytes = std::array<std::uint8_t, ServiceReply::kSize>;

[[nodiscard]] ServiceRequestBytes encode(const ServiceRequest& request) noexcept;
[[nodiscard]] ServiceReplyBytes encode(const ServiceReply& reply) noexcept;
/// Errc::Malformed when the bytes are not exactly such a message.
[[nodiscard]] Result<ServiceRequest> decode_request(std::span<const std::uint8_t> bytes) noexcept;
[[nodiscard]] Result<ServiceReply> decode_reply(std::span<const std::uint8_t> bytes) noexcept;

}  // namespace wireup::acm
