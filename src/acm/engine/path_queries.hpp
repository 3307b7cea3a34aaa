// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "acm/engine/config.hpp"
#include "acm/engine/messages.hpp"
#include "acm/engine/port_identity.hpp"
#include "base/ids.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// The path queries of a port to the SA, one for each destination and traffic class however many
/// addresses and callers want it. At most a window of them is in flight; it grows by one with every
/// window of answers and is halved by silence and by "busy", after which a query waits longer each
/// time; "busy" also stops all of them for a while, longer each time in a row. What the SA has no
/// path for is not asked again for Config::negative_life.
class PathQueries {
 public:
  struct Key {
    Gid dgid;
    std::uint8_t traffic_class = 0;
    friend constexpr auto operator<=>(const Key&, const Key&) noexcept = default;
  };

  explicit PathQueries(const Config& config) noexcept;

  /// False when the SA refused this path a moment ago.
  bool want(const Key& key, const Config& config, Instant now);
  /// Nobody waits for it any more: it is not sent again. An answer that is under way is still used.
  void cancel(const Key& key);
  void clear();

  /// The next query that is due and has a place in the window, now in flight.
  [[nodiscard]] std::optional<PathQuery> poll(const PortIdentity& port, Instant now);
  /// What the query is for. Nothing for an id that is not in flight.
  [[nodiscard]] std::optional<Key> key_of(std::uint32_t id) const noexcept;
  /// A good answer came to a query in flight.
  void finish(std::uint32_t id, const Config& config);

  struct Failed {
    Key key;
    /// Not sent again.
    bool is_final = false;
  };
  [[nodiscard]] std::optional<Failed> handle_failure(std::uint32_t id, QueryFailure failure,
                                                     const Config& config, Rng& rng, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept;

  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_.size(); }
  [[nodiscard]] std::size_t window() const noexcept { return window_; }
  friend bool operator==(const PathQueries&, const PathQueries&) noexcept = default;

 private:
  enum class State : std::uint8_t { Waiting, InFlight, Refused };
  struct Query {
    State state = State::Waiting;
    /// Waiting: when to send. Refused: the end of that. Key in waiting_ or refused_.
    Instant due;
    Duration wait{};
    bool is_wanted = true;
    friend bool operator==(const Query&, const Query&) noexcept = default;
  };
  struct Due {
    Instant at;
    Key key;
    friend constexpr auto operator<=>(const Due&, const Due&) noexcept = default;
  };

  void pause(std::uint32_t id, const Config& config, Rng& rng, Instant now);

  std::size_t window_;
  /// Answers since the window last changed.
  std::size_t successes_ = 0;
  /// No second cut of the window before this: many queries in flight are lost together.
  Instant next_cut_;
  /// After "busy": nothing is sent before the end of the pause.
  Instant pause_end_;
  Duration pause_{};
  std::uint32_t first_after_pause_ = 1;
  std::uint32_t next_id_ = 1;
  std::map<Key, Query> queries_;
  std::set<Due> waiting_;
  std::set<Due> refused_;
  std::map<std::uint32_t, Key> in_flight_;
};

}  // namespace wireup::acm
