// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace wireup::acm {

/// Why a received datagram was not used. X-macro columns: name, text.
#define WIREUP_ACM_DROPS(X)                                                   \
  X(NoGrh, "no GRH")                                                          \
  X(Malformed, "not of the format")                                           \
  X(BadSource, "source LID or GID that no port can have")                     \
  X(Own, "our own, come back from the group")                                 \
  X(OwnAddress, "another queue pair claims our address")                      \
  X(SourceMismatch, "the sender is not the address it claims")                \
  X(NotReady, "our groups are not joined yet")                                \
  X(NoCommonGroup, "no group of the message is one of ours")                  \
  X(UnknownTid, "an answer to nothing we wait for")                           \
  X(ReplierMismatch, "the answer comes from another port than the one asked") \
  X(TooManyAddresses, "its port has claimed as many addresses as one may")    \
  X(QueueFull, "an answer of ours found no room to wait for sending")

enum class Drop : std::uint8_t {
#define WIREUP_ACM_DROP_ENUMERATOR(name, text) name,
  WIREUP_ACM_DROPS(WIREUP_ACM_DROP_ENUMERATOR)
#undef WIREUP_ACM_DROP_ENUMERATOR
      kCount
};

[[nodiscard]] constexpr std::string_view drop_text(Drop drop) noexcept {
  switch (drop) {
#define WIREUP_ACM_DROP_CASE(name, text) \
  case Drop::name:                       \
    return text;
    WIREUP_ACM_DROPS(WIREUP_ACM_DROP_CASE)
#undef WIREUP_ACM_DROP_CASE
    case Drop::kCount:
      break;
  }
  return "unknown";
}

/// Counts since the engine was made.
struct Counters {
  std::uint64_t requests_sent = 0;
  /// Of the requests sent: not the first for their address.
  std::uint64_t retransmits = 0;
  std::uint64_t announcements_sent = 0;
  std::uint64_t responses_sent = 0;
  std::uint64_t requests_received = 0;
  std::uint64_t responses_received = 0;
  /// Addresses learned without having been asked for.
  std::uint64_t snooped = 0;
  /// A known address came from another queue pair: its service was restarted.
  std::uint64_t restarts = 0;
  std::uint64_t unresolved = 0;
  /// Paths whose address was not heard for its life, or whose route was older than its own.
  std::uint64_t expired = 0;
  std::uint64_t routes_expired = 0;
  std::uint64_t path_queries_sent = 0;
  /// Requests for all paths at once, and paths that they gave.
  std::uint64_t path_tables_sent = 0;
  std::uint64_t paths_from_tables = 0;
  /// Ports that the SA said to have left or come, and of those the ones that were known.
  std::uint64_t ports_left = 0;
  std::uint64_t ports_came = 0;
  std::uint64_t ports_forgotten = 0;
  /// Answers of the SA that were of another path than the one asked for.
  std::uint64_t path_replies_bad = 0;
  std::uint64_t evicted = 0;
  std::uint64_t joins_failed = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Drop::kCount)> dropped{};

  [[nodiscard]] std::uint64_t drops(Drop drop) const noexcept {
    return dropped[static_cast<std::size_t>(drop)];
  }
  friend constexpr bool operator==(const Counters&, const Counters&) noexcept = default;
};

}  // namespace wireup::acm
