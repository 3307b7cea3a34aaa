// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "acm/server/client_message.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// What is to be known of a path into another subnet besides the record of the own subnet's SA,
/// whose LIDs are those of this side's first hop.
struct RoutedRecords {
  /// What this side's queue pair is to use, where it is another path than the own SA's.
  std::optional<mad::PathRecord> outbound;
  /// The way back as the other subnet's SA sees it: its DLID, the router's there, is where the
  /// other side is to send to.
  std::optional<mad::PathRecord> inbound;
  /// The way from here as it arrives there, turned round: for answers on the way back.
  std::optional<mad::PathRecord> inbound_reverse;
  friend bool operator==(const RoutedRecords&, const RoutedRecords&) noexcept = default;
};

/// Asks the SA of another subnet for its part of a path. Nothing here does that yet; the service
/// answers with the own SA's record alone then. Not thread-safe; never blocks.
class RoutedPaths {
 public:
  using AskId = std::uint64_t;
  struct Answer {
    AskId id = 0;
    Result<RoutedRecords> records;
  };

  RoutedPaths() = default;
  virtual ~RoutedPaths() = default;
  RoutedPaths(const RoutedPaths&) = delete;
  RoutedPaths& operator=(const RoutedPaths&) = delete;

  /// `path`: the own SA's record, from a GID of this subnet to one of another. One Answer with `id`
  /// follows, at `deadline` at the latest.
  virtual void ask(AskId id, const mad::PathRecord& path, Instant deadline, Instant now) = 0;
  virtual void progress(Instant now) = 0;
  [[nodiscard]] virtual std::optional<Answer> poll_answer() = 0;
  /// Readable when progress() has something to do; -1: never.
  [[nodiscard]] virtual int fd() const noexcept = 0;
  /// When progress() is to be called even if fd() stays silent.
  [[nodiscard]] virtual std::optional<Instant> poll_timeout() const = 0;
};

/// Does the path lead into another subnet?
[[nodiscard]] constexpr bool is_routed(const mad::PathRecord& path) noexcept {
  return path.sgid.prefix() != path.dgid.prefix();
}

/// What a client is answered: the own SA's record, good for everything as far as ibacm's clients
/// know, and behind it those of the directions.
[[nodiscard]] std::vector<ClientPath> routed_answer(const mad::PathRecord& path,
                                                    const RoutedRecords& records);

/// The record with exactly these flags.
[[nodiscard]] std::optional<mad::PathRecord> path_with(const std::vector<ClientPath>& paths,
                                                       std::uint32_t flags) noexcept;

}  // namespace wireup::acm
