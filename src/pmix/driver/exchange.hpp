// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.hpp"
#include "base/time.hpp"
#include "pmix/engine/types.hpp"

namespace wireup::pmix {

/// The out-of-band exchange of cards between the ranks of a job. One object per context, used by
/// the owner of the context's progress only (not thread-safe). No call but close() blocks.
///
/// Instants are those of base/clock.hpp. After each call, and when fd() becomes readable or
/// poll_timeout() passes, call poll() until it gives nothing.
class Exchange {
 public:
  /// Does not wait for anything: call close() first for an orderly end. One that never published
  /// still takes part in the collective, without a card, so that other ranks are not held up.
  virtual ~Exchange() = default;

  [[nodiscard]] virtual const JobInfo& job() const noexcept = 0;

  /// Makes `card` known to all ranks, once per object. Returns at once; the rest happens in the
  /// background. Collective when the backend collects (PmixExchange does by default): every rank
  /// of the job must publish, in any order and at any time before its close().
  /// InvalidState when called twice, InvalidArgument when `card` is empty or above kMaxCardSize.
  virtual Result<> publish(std::span<const std::uint8_t> card) = 0;
  [[nodiscard]] virtual PublishState publish_state() const noexcept = 0;

  /// Asks for the card of `peer`; exactly one CardResult follows from poll(), no later than
  /// `deadline`. A second request for a peer that is being asked for joins the first and extends
  /// its deadline; a card that is already here is returned by the next poll() without asking.
  /// InvalidArgument when the rank is outside this job, or the namespace is longer than
  /// PeerId::kMaxNamespace.
  virtual Result<> request(const PeerRef& peer, Instant deadline, Instant now) = 0;

  /// The next finished lookup.
  [[nodiscard]] virtual std::optional<CardResult> poll(Instant now) = 0;
  /// Readable (level) while there is something for poll(). Owned by the object.
  [[nodiscard]] virtual int fd() const noexcept = 0;
  /// When poll() has to be called at the latest; nothing when no lookup runs.
  [[nodiscard]] virtual std::optional<Instant> poll_timeout() const noexcept = 0;

  /// Forgets the lookups and waits until this rank's part of the collective publication is over, so
  /// that leaving disturbs nobody; returns by `deadline` in any case. Timeout when other ranks had
  /// not published by then (the text says so). Further calls than the destructor and a second
  /// close() (which succeeds) are InvalidState.
  virtual Result<> close(Instant deadline) = 0;

  static constexpr std::size_t kMaxCardSize = 4096;
};

}  // namespace wireup::pmix
