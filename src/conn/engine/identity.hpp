// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace wireup::conn {

/// Version of the private data below. A REQ of another version is refused with
/// Refusal::WireVersion and our version in the answer.
inline constexpr std::uint8_t kWireVersion = 1;

/// The head of the private data of every CM message of ours: which job, which rank and which
/// incarnation of it sends. CM's own ids tell connections apart, these tell processes apart.
///
/// | byte | bits | field |
/// |---|---|---|
/// | 0 | 32 | magic "WUP1" |
/// | 4 | 8 | wire version |
/// | 5 | 8 | reserved, 0 |
/// | 6 | 16 | size of head and body in bytes; more may follow in later minor revisions |
/// | 8 | 64 | job: hash of the PMIx namespace |
/// | 16 | 32 | rank |
/// | 20 | 32 | epoch of the connection |
/// | 24 | 64 | incarnation |
struct Identity {
  static constexpr std::uint32_t kMagic = 0x57555031;
  static constexpr std::size_t kSize = 32;

  PeerId sender;
  /// Counts the connections between the two peers; see Engine.
  std::uint32_t epoch = 0;
  std::uint64_t incarnation = 0;
  friend constexpr bool operator==(const Identity&, const Identity&) noexcept = default;
};

/// Of a REQ, after the head: 32 the receiver's job, 40 its rank (32 bits), 44 reserved (32 bits),
/// 48 its incarnation as the sender knows it.
struct RequestData {
  static constexpr std::size_t kSize = Identity::kSize + 24;
  Identity identity;
  PeerId receiver;
  std::uint64_t receiver_incarnation = 0;
  friend constexpr bool operator==(const RequestData&, const RequestData&) noexcept = default;
};

/// Of a REP, after the head: 32 the path MTU code to use, the smaller of both directions'.
struct ReplyData {
  static constexpr std::size_t kSize = Identity::kSize + 4;
  Identity identity;
  std::uint8_t mtu = 0;
  friend constexpr bool operator==(const ReplyData&, const ReplyData&) noexcept = default;
};

/// Why a peer of ours refuses; the number is on the wire. X-macro columns: name, number, sentence.
#define WIREUP_REFUSALS(X)                                                                    \
  X(Malformed, 1, "the request's private data do not follow the format")                      \
  X(WireVersion, 2, "the peer runs another version of wireup's wire format")                  \
  X(WrongJob, 3, "the peer belongs to another job")                                           \
  X(WrongReceiver, 4, "the queue pair of the peer's card belongs to another rank now")        \
  X(WrongIncarnation, 5, "the peer's process has been restarted since it published its card") \
  X(UnknownSender, 6, "the peer knows another incarnation of this process")                   \
  X(Closing, 7, "the peer is closing its context")                                            \
  X(NoQueuePair, 8, "the peer could not make its queue pair ready")                           \
  X(NoPath, 9, "the peer found no path back")                                                 \
  X(Cancelled, 10, "the peer gave the connection up")                                         \
  X(WrongPort, 11, "the request names another port than the one it came to")

enum class Refusal : std::uint8_t {
#define WIREUP_REFUSAL_ENUMERATOR(name, number, sentence) name = (number),
  WIREUP_REFUSALS(WIREUP_REFUSAL_ENUMERATOR)
#undef WIREUP_REFUSAL_ENUMERATOR
};
/// The sentence; "a reason that this version does not know" for other numbers.
[[nodiscard]] std::string_view refusal_sentence(std::uint8_t refusal) noexcept;

/// Of a REJ, after the head: 32 the Refusal, as a number.
struct RefusalData {
  static constexpr std::size_t kSize = Identity::kSize + 4;
  Identity identity;
  std::uint8_t refusal = 0;
  friend constexpr bool operator==(const RefusalData&, const RefusalData&) noexcept = default;
};

[[nodiscard]] std::array<std::uint8_t, Identity::kSize> serialize(const Identity& data) noexcept;
[[nodiscard]] std::array<std::uint8_t, RequestData::kSize> serialize(
    const RequestData& data) noexcept;
[[nodiscard]] std::array<std::uint8_t, ReplyData::kSize> serialize(const ReplyData& data) noexcept;
[[nodiscard]] std::array<std::uint8_t, RefusalData::kSize> serialize(
    const RefusalData& data) noexcept;

/// Errc::Malformed for a wrong magic or size, Errc::Unsupported for another wire version.
[[nodiscard]] Result<Identity> parse_identity(std::span<const std::uint8_t> bytes) noexcept;
[[nodiscard]] Result<RequestData> parse_request(std::span<const std::uint8_t> bytes) noexcept;
[[nodiscard]] Result<ReplyData> parse_reply(std::span<const std::uint8_t> bytes) noexcept;
[[nodiscard]] Result<RefusalData> parse_refusal(std::span<const std::uint8_t> bytes) noexcept;

}  // namespace wireup::conn
