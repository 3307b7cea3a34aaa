// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/rng.hpp"
#include "base/timer_table.hpp"
#include "cm/engine/events.hpp"
#include "cm/engine/listeners.hpp"
#include "cm/engine/outbox.hpp"
#include "cm/engine/rtt_estimator.hpp"
#include "cm/engine/sidr_table.hpp"
#include "cm/engine/types.hpp"
#include "mad/cm.hpp"

namespace wireup::cm {

/// Service id resolution (IBTA vol 1, 12.11): which datagram queue pair serves a service id at a
/// peer. A part of Engine, whose contract holds here too. A value.
class Sidr {
 public:
  /// What it has of the engine's configuration and randomness for one call.
  struct Context {
    const Config& config;
    Rng& rng;
    Outbox& outbox;
    Instant now;
  };

  void serve(ServiceId id, std::uint64_t mask) { services_.add(id, mask, {}); }
  void unserve(ServiceId id, std::uint64_t mask) { services_.remove(id, mask); }

  /// See Engine::resolve_service(), answer_service() and abandon().
  [[nodiscard]] Result<ResolutionId> resolve(const SidrParams& params, Context context);
  [[nodiscard]] Result<> answer(ResolutionId id, const SidrAnswer& answer, Context context);
  void abandon(ResolutionId id);

  void handle(const Address& from, const mad::SidrReq& req, Context context);
  void handle(const Address& from, const mad::SidrRep& rep, Context context);
  void handle_timeout(Context context);
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept;
  [[nodiscard]] std::optional<SidrEvent> poll_event();
  /// Resolutions of both directions that are under way.
  [[nodiscard]] std::size_t size() const noexcept { return resolutions_.size(); }

  friend bool operator==(const Sidr&, const Sidr&) = default;

 private:
  enum class Timer : std::uint8_t { Retransmit, Deadline, kCount };

  struct Resolution {
    SidrState state = SidrState::Idle;
    Address peer;
    CommId request_id;
    Tid tid;
    ServiceId service_id;
    unsigned attempts = 0;
    Timers timing = Timers::Adaptive;
    Instant since;
    Duration interval{};
    TimerTable<Timer> timers;
    std::optional<Instant> scheduled;
    /// The request to send again, without the zeros at its end.
    std::vector<std::uint8_t> last_sent;
    friend bool operator==(const Resolution&, const Resolution&) = default;
  };
  using Map = std::map<ResolutionId, Resolution>;
  /// Of a peer's question: where it came from, and its id there. The LID counts only without a GID,
  /// as in is_same_source().
  struct PeerKey {
    Lid lid;
    Gid gid;
    Qpn qpn;
    CommId request_id;
    friend constexpr auto operator<=>(const PeerKey&, const PeerKey&) noexcept = default;
  };

  [[nodiscard]] static PeerKey key_of(const Address& from, CommId request_id) noexcept;
  void schedule(Map::iterator at);
  void remove(Map::iterator at);
  void start_retransmission(Map::iterator at, Context context);
  void expire(Map::iterator at, Context context);
  static void send_answer(const Resolution& resolution, const SidrAnswer& answer, Context context);

  Listeners services_;
  std::uint64_t next_id_ = 1;
  Map resolutions_;
  std::map<CommId, ResolutionId> by_request_id_;
  std::map<PeerKey, ResolutionId> by_peer_;
  std::set<std::pair<Instant, ResolutionId>> deadlines_;
  RttEstimator rtt_;
  std::deque<SidrEvent> events_;
};

}  // namespace wireup::cm
