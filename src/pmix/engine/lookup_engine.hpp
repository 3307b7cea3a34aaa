// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "pmix/engine/types.hpp"

namespace wireup::pmix {

/// A question to the PMIx library.
struct GetCall {
  std::uint64_t id = 0;
  PeerRef peer;
  /// True: only what this node's server has already. False: the server may ask the peer's node.
  bool local_only = true;
  /// How long the asker will wait; a hint for the library, which does not always obey it.
  Duration patience{};

  friend bool operator==(const GetCall&, const GetCall&) = default;
};

enum class GetStatus : std::uint8_t {
  Found,
  NotFound,   ///< answered: there is no such key (yet)
  Failed,     ///< no answer of use: timeout or an error of the library
  Malformed,  ///< a value of the wrong type or size
};

/// The lookups of peers' cards: which question to ask when, what to remember and when to give up.
/// Pure: no thread, no clock. The driver feeds replies and time, and takes calls and results.
///
/// Why it asks the way it does (measured with OpenPMIx 4.2): a remote lookup waits only for the
/// peer's first commit, so "not found" before the collective has ended means "not yet" and is asked
/// again with back-off; a call about a killed peer may never be answered, so a call whose lookup
/// has ended is forgotten, and its late reply still fills the cache.
class LookupEngine {
 public:
  struct Config {
    Duration retry_first = std::chrono::milliseconds(1);
    Duration retry_max = std::chrono::milliseconds(100);
    /// Calls under way at a time; forgotten ones do not count.
    std::uint32_t window = 64;
    /// Seed of the jitter.
    std::uint64_t seed = 1;
    friend bool operator==(const Config&, const Config&) = default;
  };

  explicit LookupEngine(const Config& config) : config_(config), rng_(config.seed) {}

  /// `peer` with its namespace filled in. One result follows, at the latest at `deadline`.
  void request(const PeerRef& peer, Instant deadline, Instant now);
  /// All cards that there are, are on this node now: everything that waits is asked again.
  void handle_collected();
  /// An unknown id is ignored.
  void handle_reply(std::uint64_t id, GetStatus status, std::span<const std::uint8_t> card,
                    Instant now);
  /// The server is gone for good: what is cached stays, the rest fails.
  void handle_server_gone();
  void handle_timeout(Instant now);
  /// Forgets all lookups without results; the cache stays.
  void cancel_all();

  [[nodiscard]] std::optional<GetCall> poll_call(Instant now);
  [[nodiscard]] std::optional<CardResult> poll_result();
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept;

  [[nodiscard]] bool has_result() const noexcept { return !results_.empty(); }
  [[nodiscard]] std::size_t pending() const noexcept { return lookups_.size(); }

  friend bool operator==(const LookupEngine&, const LookupEngine&) = default;

 private:
  enum class Phase : std::uint8_t {
    Queued,   // in ready_
    Asking,   // call_id is under way
    Waiting,  // for retry_at
  };
  struct Lookup {
    Instant deadline;
    Phase phase = Phase::Queued;
    bool local_only = true;     // the next question, or the one under way
    bool answered = false;      // at least one answer was "not found"
    std::uint64_t call_id = 0;  // while Asking
    std::uint32_t rounds = 0;   // of remote questions answered
    Instant retry_at;           // while Waiting
    Duration back_off{};
    friend bool operator==(const Lookup&, const Lookup&) = default;
  };
  struct Call {
    PeerRef peer;
    bool local_only = true;
    bool counted = true;  // takes a place of the window
    friend bool operator==(const Call&, const Call&) = default;
  };
  using Lookups = std::map<PeerRef, Lookup>;

  void queue(const PeerRef& peer, Lookup& lookup, bool local_only);
  void wait(const PeerRef& peer, Lookup& lookup, Instant now);
  void forget_call(Lookup& lookup);
  [[nodiscard]] Instant wake_time(const Lookup& lookup) const noexcept;
  void set_timer(const PeerRef& peer, Lookup& lookup, Phase phase, Instant retry_at);
  void finish(Lookups::iterator at, Result<std::vector<std::uint8_t>> card);
  [[nodiscard]] bool remote_question_is_open(const PeerRef& peer) const;
  void expire(Lookups::iterator at);

  Config config_;
  Rng rng_;
  bool server_gone_ = false;
  std::uint32_t in_flight_ = 0;
  std::uint64_t next_id_ = 1;
  Lookups lookups_;
  std::map<PeerRef, std::vector<std::uint8_t>> cache_;
  std::map<std::uint64_t, Call> calls_;
  /// Peers with a remote question that the library still has.
  std::map<PeerRef, std::uint32_t> open_remote_;
  std::deque<PeerRef> ready_;
  std::set<std::pair<Instant, PeerRef>> timers_;  // one per lookup, at its wake_time()
  std::deque<CardResult> results_;
};

}  // namespace wireup::pmix
