// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "acm/engine/config.hpp"
#include "acm/engine/messages.hpp"
#include "acm/engine/port_identity.hpp"
#include "base/ids.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "mad/mc_member_record.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// What the paths of a port have in common, if they do.
struct PathShape {
  Sl sl;
  /// Codes of mad/rate.hpp.
  std::uint8_t mtu = 0;
  std::uint8_t rate = 0;
  friend constexpr bool operator==(const PathShape&, const PathShape&) noexcept = default;
};

/// Is it an answer of the SA that this port can send on: from it to another port, in its partition,
/// of a known MTU?
[[nodiscard]] bool is_usable_path(const mad::PathRecord& record, const PortIdentity& port) noexcept;

/// Would a path made of the group be the one that the SA gives? Its SL must be the same, and it
/// must not promise more MTU or rate.
[[nodiscard]] bool goes_with(const mad::McMemberRecord& group, const PathShape& paths) noexcept;

/// Asks the SA for all paths of the port in one request (Config::bulk_paths) and says what follows
/// for paths that are made of multicast groups. One request at the start and one after each
/// restart(), never two in flight, and the more of them the longer apart; silence and "busy" are
/// tried again with growing waits.
///
/// Multicast-made paths are judged by the answer: where SL, MTU or rate differ between
/// destinations, or are not the group's, such a path would be a wrong one. Switches are no
/// destinations of queue pairs, and their ports may be slower than all others: where paths differ,
/// a second request tells which of them lead to switches. Before the first answer there is no
/// verdict, for Config::bulk_patience at most.
class BulkFill {
 public:
  BulkFill(const Config& config, Instant now) noexcept;

  /// The paths may be others now: ask again. The verdict stands until the answer is there.
  void restart(const Config& config, Rng& rng, Instant now);
  /// The request that is due, now in flight.
  [[nodiscard]] std::optional<TableQuery> poll(const Config& config, const PortIdentity& port,
                                               Instant now);
  /// False for an id that is not in flight.
  [[nodiscard]] bool handle_table(std::uint32_t id, std::span<const mad::PathRecord> records,
                                  const PortIdentity& port);
  [[nodiscard]] bool handle_switches(std::uint32_t id, std::span<const Guid> switches);
  [[nodiscard]] bool handle_failure(std::uint32_t id, QueryFailure failure, const Config& config,
                                    Rng& rng, Instant now);
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept;

  /// Where paths are to come from. `group` is the one that paths would be made of, if it is joined.
  [[nodiscard]] RouteProtocol protocol(const Config& config, const mad::McMemberRecord* group,
                                       Instant now) const noexcept;
  /// Without an answer there is a protocol from this time on.
  [[nodiscard]] Instant patience_end() const noexcept { return patience_end_; }
  /// An answer was there.
  [[nodiscard]] bool has_verdict() const noexcept { return verdict_.has_value(); }

  friend bool operator==(const BulkFill&, const BulkFill&) noexcept = default;

 private:
  enum class State : std::uint8_t { Off, Waiting, InFlight, AsksSwitches, SwitchesInFlight, Done };
  struct Verdict {
    bool is_uniform = true;
    /// Nothing where the answer had no path.
    std::optional<PathShape> shape;
    friend constexpr bool operator==(const Verdict&, const Verdict&) noexcept = default;
  };
  /// What of a path the verdict depends on.
  struct Judged {
    Guid port;
    PathShape shape;
    bool is_reversible = false;
    friend constexpr bool operator==(const Judged&, const Judged&) noexcept = default;
  };
  [[nodiscard]] static Verdict judge(std::span<const Judged> paths) noexcept;
  void settle(const Verdict& verdict) noexcept;

  State state_ = State::Off;
  /// When to ask (Waiting).
  Instant due_;
  /// After the next failure.
  Duration wait_{};
  /// Least time from the last request to the one after a restart.
  Duration spacing_{};
  Instant asked_at_;
  Instant patience_end_;
  std::uint32_t id_ = 0;
  std::optional<Verdict> verdict_;
  /// While it is asked which of them lead to switches.
  std::vector<Judged> judged_;
};

}  // namespace wireup::acm
