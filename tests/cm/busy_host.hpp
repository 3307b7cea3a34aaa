// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cm/cm_host.hpp"

/// A host that does at random everything that an engine can, and checks what it is told.
namespace wireup::cm {

/// Nobody listens on it: both ends connect.
inline constexpr ServiceId kMeeting{0x2000000000000000ULL};
/// Served over datagrams.
inline constexpr ServiceId kDatagramService{0x3000000000000000ULL};

/// What one end tells of one connection.
struct Side {
  bool called = false;
  bool established = false;
  unsigned ends = 0;
};

/// What both ends tell of one connection, found by the number in the REQ's private data.
struct Story {
  Network::NodeId caller = 0;
  Side of_caller;
  Side of_other;
  /// One of the hosts crashed while the connection was there: the ends need not agree.
  bool is_torn = false;
  [[nodiscard]] Side& side(Network::NodeId host) { return host == caller ? of_caller : of_other; }
};
using Stories = std::map<std::uint64_t, Story>;

class BusyHost {
 public:
  static constexpr std::uint32_t kQueuePairs = 40;
  static constexpr std::uint64_t kPolicies = 8;
  static constexpr Duration kLimit = std::chrono::minutes(10);

  BusyHost(Network& network, std::uint64_t seed, const Config& config, Stories& stories)
      : host(network, seed, config), network_(network), rng_(seed), stories_(stories) {
    host.on_event = [this](const Event& event) {
      handle(event);
      return true;
    };
    host.on_sidr = [this](const SidrEvent& event) { handle(event); };
    start();
  }

  /// The engine is lost with all it knew, and its queue pairs are made anew under the same numbers.
  void crash() {
    ++incarnation_;
    host.restart(rng_.next());
    links_.clear();
    free_.clear();
    questions_.clear();
    start();
  }

  // Operations. False when there was nothing to do it with.
  bool connect(Network::NodeId peer, std::uint64_t number) {
    const auto kind = rng_.below(kPolicies);
    ConnectParams params = host.connect_params(peer, 0, kLimit);
    params.service_id = ServiceId(kService.value() + rng_.below(kPolicies));
    params.policy = policy(kind);
    return call(params, peer, number);
  }
  /// One half of a peer-to-peer connect; the other half calls under the same number.
  bool meet(Network::NodeId peer, std::uint64_t number) {
    ConnectParams params = host.connect_params(peer, 0, std::chrono::seconds(20));
    params.service_id = kMeeting;
    params.peer_to_peer = true;
    params.policy = policy(rng_.below(kPolicies));
    return call(params, peer, number);
  }
  [[nodiscard]] bool is_meeting(Network::NodeId peer) const {
    for (const auto& [handle, link] : links_) {
      if (link.is_meeting && link.peer == peer) {
        return true;
      }
    }
    return false;
  }
  bool call_off() {
    return with_one([&](Handle, const Link& link,
                        State state) { return state == State::ReqSent && !link.is_meeting; },
                    [&](Handle handle, Link&) {
                      host.engine().abandon(handle, network_.now());
                      end(handle);
                    });
  }
  bool disconnect() {
    return with_one(is_established(),
                    [&](Handle handle, Link&) { EXPECT_TRUE(host.disconnect(handle)); });
  }
  bool load_alternate() {
    return with_one(is_established(), [&](Handle handle, Link& link) {
      LapParams params;
      params.path = host.connect_params(link.peer, 1).path;
      params.deadline = network_.now() + std::chrono::seconds(5);
      const bool is_free = host.engine().alternate_state(handle) == AlternateState::Uninit ||
                           host.engine().alternate_state(handle) == AlternateState::Idle;
      const auto loaded = host.engine().load_alternate(handle, params, network_.now());
      EXPECT_EQ(loaded.has_value(), is_free);
      if (is_free) {
        ++link.laps;
      }
      host.flush();
    });
  }
  bool migrate() {
    return with_one(is_established(), [&](Handle handle, Link& link) {
      Address to = Host::address_of(link.peer);
      to.sl = Sl(static_cast<std::uint8_t>(rng_.below(16)));
      static_cast<void>(host.engine().migrated(handle, to, network_.now()));
    });
  }
  /// A queue pair that rests towards a peer is refused towards it.
  bool reuse_too_early() {
    return with_one([](Handle, const Link&, State state) { return state == State::Timewait; },
                    [&](Handle, const Link& link) {
                      const auto made = host.engine().connect(
                          host.connect_params(link.peer, link.qpn), network_.now());
                      EXPECT_FALSE(made);
                      EXPECT_TRUE(made || made.error().is(Errc::Busy));
                      ++tally["resting"];
                    });
  }
  bool ask(Network::NodeId peer) {
    SidrParams params;
    params.to = Host::address_of(peer);
    params.service_id = ServiceId(kDatagramService.value() + rng_.below(2));
    params.deadline = network_.now() + std::chrono::seconds(1 + rng_.below(20));
    params.timers = rng_.below(2) == 0 ? Timers::Iba : Timers::Adaptive;
    params.iba_interval = std::chrono::milliseconds(200);
    const auto id = host.engine().resolve_service(params, network_.now());
    EXPECT_TRUE(id);
    questions_.insert(*id);
    if (rng_.below(10) == 0) {
      host.engine().abandon(*id);
      questions_.erase(*id);
    }
    host.flush();
    return true;
  }
  void disconnect_all() {
    while (disconnect()) {
    }
  }
  /// Whose connections with `other` are torn by its crash.
  void tear(Network::NodeId other) {
    for (const auto& [handle, link] : links_) {
      if (link.peer == other) {
        stories_.at(link.number).is_torn = true;
      }
    }
  }
  void tear_all() {
    for (const auto& [handle, link] : links_) {
      stories_.at(link.number).is_torn = true;
    }
  }

  void expect_nothing_left() {
    EXPECT_EQ(links_.size(), 0U);
    EXPECT_EQ(free_.size(), kQueuePairs);
    EXPECT_EQ(questions_.size(), 0U);
    EXPECT_EQ(host.engine().connections(), 0U);
    EXPECT_EQ(host.engine().resolutions(), 0U);
    EXPECT_EQ(host.engine().poll_timeout(), std::nullopt);
  }

  Host host;
  /// What came to pass, over all incarnations.
  std::map<std::string, std::uint64_t> tally;

 private:
  struct Link {
    std::uint64_t number = 0;
    std::uint32_t qpn = 0;
    Network::NodeId peer = 0;
    bool is_meeting = false;
    bool is_over = false;
    /// LAPs of ours that have not been told about.
    unsigned laps = 0;
  };

  void start() {
    for (std::uint32_t i = 0; i < kQueuePairs; ++i) {
      free_.insert(0x500 + i);
    }
    host.engine().unlisten(kService);
    for (std::uint64_t kind = 0; kind < kPolicies; ++kind) {
      host.engine().listen(ServiceId(kService.value() + kind), policy(kind));
    }
    host.engine().serve(kDatagramService);
  }
  [[nodiscard]] static Policy policy(std::uint64_t kind) {
    Policy policy;
    policy.timers = (kind & 1U) != 0 ? Timers::Iba : Timers::Adaptive;
    policy.answers_release = (kind & 2U) == 0;
    policy.takes_alternate_paths = (kind & 4U) != 0;
    policy.patience = IbTimeout((kind & 4U) != 0 ? 15 : 0);
    return policy;
  }
  std::uint32_t take_qpn() {
    auto at = free_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(rng_.below(free_.size())));
    const std::uint32_t qpn = *at;
    free_.erase(at);
    return qpn;
  }
  bool call(ConnectParams params, Network::NodeId peer, std::uint64_t number) {
    if (free_.empty()) {
      return false;
    }
    const std::uint32_t qpn = take_qpn();
    params.qpn = Qpn(qpn);
    params.remote_cm_response_timeout = IbTimeout(16);
    params.local_cm_response_timeout = IbTimeout(16);
    std::array<std::uint8_t, 8> bytes{};
    store_be(bytes, 0, 8, number);
    params.private_data = *BoundedBytes<92>::make(bytes);
    const auto handle = host.engine().connect(params, network_.now());
    EXPECT_TRUE(handle);
    links_[*handle] = {number, qpn, peer, params.peer_to_peer, false, 0};
    const auto [story, is_first] = stories_.try_emplace(number);
    if (is_first) {
      story->second.caller = host.id();
    }
    story->second.side(host.id()).called = true;
    host.flush();
    return true;
  }
  template <typename Fits, typename Do>
  bool with_one(Fits fits, Do what) {
    std::vector<Handle> fitting;
    for (const auto& [handle, link] : links_) {
      const auto state = host.engine().state(handle);
      if (state.has_value() && fits(handle, link, *state)) {
        fitting.push_back(handle);
      }
    }
    if (fitting.empty()) {
      return false;
    }
    const Handle chosen = fitting[rng_.below(fitting.size())];
    what(chosen, links_.at(chosen));
    return true;
  }
  static std::function<bool(Handle, const Link&, State)> is_established() {
    return [](Handle, const Link&, State state) { return state == State::Established; };
  }
  /// Now or after a while, or never. `what` is not called in another incarnation.
  void soon(const std::function<void()>& what) {
    const auto choice = rng_.below(10);
    if (choice < 6) {
      what();
    } else if (choice < 9) {
      const Duration wait = std::chrono::milliseconds(rng_.below(1500));
      network_.at(network_.now() + wait, [this, what, incarnation = incarnation_] {
        if (incarnation == incarnation_) {
          what();
          host.flush();
        }
      });
    }
  }

  void end(Handle handle) {
    Link& link = links_.at(handle);
    EXPECT_FALSE(link.is_over) << "told twice that it ended";
    link.is_over = true;
    ++stories_.at(link.number).side(host.id()).ends;
    if (!host.engine().state(handle).has_value()) {
      forget(handle);
    }
  }
  void forget(Handle handle) {
    free_.insert(links_.at(handle).qpn);
    links_.erase(handle);
  }
  void establish(Handle handle) {
    Side& side = stories_.at(links_.at(handle).number).side(host.id());
    EXPECT_FALSE(side.established) << "one call, two connections";
    side.established = true;
  }

  void handle(const Event& event) {
    ++tally[kEventNames[event.index()]];
    const Handle of = handle_of(event);
    if (const auto* req = event_as<ReqReceived>(event)) {
      offered(*req);
    } else if (event_as<RepReceived>(event) != nullptr) {
      replied(of);
    } else if (event_as<Established>(event) != nullptr) {
      establish(of);
    } else if (const auto* exit = event_as<TimewaitExit>(event)) {
      // An offer that was refused as stale while nobody had answered it has no link.
      if (links_.contains(of)) {
        EXPECT_TRUE(links_.at(of).is_over);
        EXPECT_EQ(exit->local_qpn, Qpn(links_.at(of).qpn));
        forget(of);
      }
    } else if (const auto* offer = event_as<AlternateOffered>(event)) {
      alternate_offered(*offer);
    } else if (event_as<AlternateAnswered>(event) != nullptr ||
               event_as<AlternateFailed>(event) != nullptr) {
      EXPECT_EQ(links_.at(of).laps--, 1U) << "one LAP, one answer";
    } else if (const auto* gone = event_as<Disconnected>(event)) {
      const bool awaits_release = gone->awaits_release;
      end(of);
      if (awaits_release) {
        soon([this, of] { static_cast<void>(host.engine().release(of, {}, network_.now())); });
      }
    } else if (event_as<MraReceived>(event) == nullptr && links_.contains(of)) {
      // Without a link: an offer that nobody has answered.
      end(of);
    }
  }
  void offered(const ReqReceived& req) {
    const Handle of = req.handle;
    const bool is_ours = links_.contains(of);
    const std::uint64_t number =
        is_ours ? links_.at(of).number : load_be(req.req.private_data, 0, 8);
    const Network::NodeId peer = Host::host_at(req.from);
    maybe_delay(of);
    soon([this, of, is_ours, number, peer] { decide(of, is_ours, number, peer); });
  }
  void decide(Handle of, bool is_ours, std::uint64_t number, Network::NodeId peer) {
    Engine& engine = host.engine();
    const auto state = engine.state(of);
    if (state != State::ReqRcvd && state != State::MraReqSent) {
      // Withdrawn, or refused for us in the meantime.
      return;
    }
    if (rng_.below(20) == 0 || (!is_ours && free_.empty())) {
      EXPECT_TRUE(engine.reject(of, mad::RejReason::ConsumerReject, {}, {}, network_.now()));
      if (is_ours) {
        end(of);
      }
      return;
    }
    AcceptParams params;
    params.local_ca_guid = host.guid();
    params.qpn = Qpn(is_ours ? links_.at(of).qpn : take_qpn());
    params.deadline = network_.now() + kLimit;
    expect_rested(of, params, peer);
    if (!engine.accept(of, params, network_.now())) {
      // An earlier connection with one of the queue pairs is not over.
      engine.abandon(of, network_.now());
      if (is_ours) {
        end(of);
      } else {
        free_.insert(params.qpn.value());
      }
      return;
    }
    if (!is_ours) {
      links_[of] = {number, params.qpn.value(), peer, false, false, 0};
    }
  }
  /// A queue pair of ours that rests towards the peer is refused.
  void expect_rested(Handle of, AcceptParams params, Network::NodeId peer) {
    for (const auto& [handle, link] : links_) {
      if (link.peer == peer && host.engine().state(handle) == State::Timewait) {
        params.qpn = Qpn(link.qpn);
        const auto accepted = host.engine().accept(of, params, network_.now());
        EXPECT_FALSE(accepted);
        EXPECT_TRUE(accepted || accepted.error().is(Errc::Busy));
        ++tally["resting"];
        return;
      }
    }
  }
  void maybe_delay(Handle of) {
    if (rng_.below(5) == 0) {
      static_cast<void>(host.engine().delay(
          of, IbTimeout(static_cast<std::uint8_t>(10 + rng_.below(10))), {}, network_.now()));
    }
  }
  void replied(Handle of) {
    maybe_delay(of);
    soon([this, of] {
      Engine& engine = host.engine();
      if (rng_.below(20) == 0) {
        if (engine.reject(of, mad::RejReason::ConsumerReject, {}, {}, network_.now())) {
          end(of);
        }
      } else if (engine.establish(of, {}, network_.now())) {
        establish(of);
      }
    });
  }
  void alternate_offered(const AlternateOffered& offer) {
    const Handle of = offer.handle;
    maybe_delay(of);
    soon([this, of] {
      AprParams params;
      params.status = static_cast<mad::AprStatus>(rng_.below(4));
      static_cast<void>(host.engine().answer_alternate(of, params, network_.now()));
    });
  }
  void handle(const SidrEvent& event) {
    if (const auto* req = std::get_if<SidrReqReceived>(&event)) {
      ++tally["SidrReqReceived"];
      const ResolutionId id = req->id;
      if (rng_.below(10) == 0) {
        host.engine().abandon(id);
        return;
      }
      soon([this, id] {
        SidrAnswer answer;
        answer.qpn = Qpn(0x4242);
        static_cast<void>(host.engine().answer_service(id, answer, network_.now()));
      });
    } else {
      const auto* rep = std::get_if<SidrRepReceived>(&event);
      ++tally[rep != nullptr ? "SidrRepReceived" : "SidrFailed"];
      const ResolutionId id = rep != nullptr ? rep->id : std::get<SidrFailed>(event).id;
      EXPECT_EQ(questions_.erase(id), 1U) << "one question, one end";
    }
  }

  static constexpr std::array<const char*, std::variant_size_v<Event>> kEventNames = {
      "ReqReceived",      "RepReceived",       "Established",    "Rejected",
      "Failed",           "Disconnected",      "TimewaitExit",   "MraReceived",
      "AlternateOffered", "AlternateAnswered", "AlternateFailed"};

  Network& network_;
  Rng rng_;
  Stories& stories_;
  unsigned incarnation_ = 0;
  std::set<std::uint32_t> free_;
  std::map<Handle, Link> links_;
  std::set<ResolutionId> questions_;
};

}  // namespace wireup::cm
