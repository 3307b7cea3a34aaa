// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "mad/notice.hpp"
#include "mad/sa.hpp"
#include "umad/port.hpp"

namespace wireup::umad {

/// What the SA says unasked: subscribes to traps (SubnAdmSet of InformInfo) and takes and answers
/// the reports that follow. A convenience: whatever fails here is tried again, with growing waits,
/// and is told by fault(), no more.
///
/// A subscription is the port's, not a program's, and the SA ends it with the port: there is
/// deliberately no call to end one. One program of a port can receive reports.
///
/// Not thread-safe; never blocks.
class SaNotices {
 public:
  struct Options {
    std::string device;
    std::uint8_t port = 1;
    MadAddress sm;
    std::vector<std::uint16_t> traps;
    /// Before the first subscription, so that short jobs have none.
    Duration first_wait = std::chrono::seconds(1);
    Duration timeout = std::chrono::seconds(1);
    /// Waits after something failed, doubled each time up to the longest.
    Duration first_retry = std::chrono::seconds(1);
    Duration max_retry = std::chrono::seconds(60);
    std::uint64_t seed = 0;
  };
  /// Opens nothing yet. `ops` must outlive this.
  SaNotices(const Options& options, Instant now, const Ops& ops = system_ops());

  /// The SA is another one, or has forgotten what it was told: subscribe anew.
  void subscribe_again(const MadAddress& sm, Instant now);

  /// Readable when progress() has something to do; -1 until the port could be opened, and then
  /// constant.
  [[nodiscard]] int fd() const noexcept { return port_.has_value() ? port_->fd() : -1; }
  void progress(Instant now);
  [[nodiscard]] std::optional<mad::Notice> poll_notice();
  [[nodiscard]] Instant poll_timeout() const noexcept { return due_; }

  /// Traps that are subscribed to.
  [[nodiscard]] std::size_t subscribed() const noexcept { return next_; }
  /// Reports that were not used: not of our SM, or not of the format.
  [[nodiscard]] std::uint64_t ignored() const noexcept { return ignored_; }
  /// What failed last; nothing once all traps are subscribed to.
  [[nodiscard]] const std::optional<Error>& fault() const noexcept { return fault_; }

 private:
  void subscribe(Instant now);
  void handle(const ReceivedMad& received, Instant now);
  void handle_answer(const ReceivedMad& received, const mad::SaMad& sa, Instant now);
  void handle_report(const ReceivedMad& received, const mad::SaMad& sa);
  void failed(const Error& error, Instant now);

  Options options_;
  const Ops* ops_;
  Rng rng_;
  std::optional<Port> port_;
  /// The traps before this one are subscribed to; the request in flight is for this one.
  std::size_t next_ = 0;
  /// Of the request in flight; 0: none.
  std::uint32_t tid_ = 0;
  std::uint32_t last_tid_ = 0;
  /// In flight: when to stop waiting. Else: when to go on; far away when all is subscribed.
  Instant due_;
  Duration wait_;
  std::optional<Error> fault_;
  std::uint64_t ignored_ = 0;
  std::deque<mad::Notice> notices_;
};

}  // namespace wireup::umad
