// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cm/cm_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// What both ends tell of one connect, found by the number in the REQ's private
/// data.
struct Outcome {
  bool active_established = false;
  bool passive_established = false;
  unsigned active_ends = 0;
  unsigned passive_ends = 0;
};

/// A host that connects, refuses, releases and calls off at random, with few QP
/// numbers that it uses again as soon as the engine says so.
class RandomHost {
 public:
  static constexpr std::uint32_t kQueuePairs = 40;

  RandomHost(Network& network, std::uint64_t seed, const Config& config,
             std::map<std::uint64_t, Outcome>& outcomes)
      : host(network, seed, config), network_(network), rng_(seed), outcomes_(outcomes) {
    for (std::uint32_t i = 0; i < kQueuePairs; ++i) {
      free_.insert(0x500 + i);
    }
    host.on_event = [this](const Event& event) {
      handle(event);
      return true;
    };
  }

  /// False when no queue pair is free.
  bool connect(Network::NodeId peer, std::uint64_t number) {
    if (free_.empty()) {
      return false;
    }
    const std::uint32_t qpn = take_qpn();
    ConnectParams params = host.connect_params(peer, qpn, minutes(10));
    std::array<std::uint8_t, 8> bytes{};
    store_be(bytes, 0, 8, number);
    params.private_data = *BoundedBytes<92>::make(bytes);
    outcomes_[number] = {};
    // Events of the connection may come out of the very call.
    const auto handle = host.engine().connect(params, network_.now());
    EXPECT_TRUE(handle);
    links_[*handle] = {number, qpn, true, false};
    host.flush();
    return true;
  }
  void disconnect_one() {
    for (auto& [handle, link] : links_) {
      if (host.engine().state(handle) == State::Established) {
        EXPECT_TRUE(host.disconnect(handle));
        return;
      }
    }
  }
  /// Forgets one of the connects that are under way.
  void call_one_off() {
    for (auto& [handle, link] : links_) {
      if (link.is_active && host.engine().state(handle) == State::ReqSent) {
        host.engine().abandon(handle, network_.now());
        end_and_maybe_forget(Handle(handle));
        return;
      }
    }
  }
  void disconnect_all() {
    std::vector<Handle> established;
    for (const auto& [handle, link] : links_) {
      if (host.engine().state(handle) == State::Established) {
        established.push_back(handle);
      }
    }
    for (const Handle handle : established) {
      if (host.engine().state(handle) == State::Established) {
        EXPECT_TRUE(host.disconnect(handle));
      }
    }
  }
  [[nodiscard]] std::size_t free_queue_pairs() const { return free_.size(); }
  [[nodiscard]] std::size_t links() const { return links_.size(); }

  Host host;

 private:
  struct Link {
    std::uint64_t number = 0;
    std::uint32_t qpn = 0;
    bool is_active = false;
    bool is_over = false;
  };

  std::uint32_t take_qpn() {
    auto at = free_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(rng_.below(free_.size())));
    const std::uint32_t qpn = *at;
    free_.erase(at);
    return qpn;
  }
  void end(Handle handle) {
    Link& link = links_.at(handle);
    EXPECT_FALSE(link.is_over) << "told twice that it ended";
    link.is_over = true;
    Outcome& outcome = outcomes_.at(link.number);
    ++(link.is_active ? outcome.active_ends : outcome.passive_ends);
  }
  void forget(Handle handle) {
    free_.insert(links_.at(handle).qpn);
    links_.erase(handle);
  }
  /// After a terminal event: in TIMEWAIT the queue pair has to rest.
  void end_and_maybe_forget(Handle handle) {
    end(handle);
    if (!host.engine().state(handle).has_value()) {
      forget(handle);
    }
  }

  void handle(const Event& event) {
    Engine& engine = host.engine();
    if (const auto* req = event_as<ReqReceived>(event)) {
      offer(*req);
    } else if (const auto* rep = event_as<RepReceived>(event)) {
      if (rng_.below(20) == 0) {
        EXPECT_TRUE(
            engine.reject(rep->handle, mad::RejReason::ConsumerReject, {}, {}, network_.now()));
        end_and_maybe_forget(rep->handle);
      } else if (engine.establish(rep->handle, {}, network_.now())) {
        outcomes_.at(links_.at(rep->handle).number).active_established = true;
      }
    } else if (const auto* established = event_as<Established>(event)) {
      Outcome& outcome = outcomes_.at(links_.at(established->handle).number);
      EXPECT_FALSE(outcome.passive_established) << "one connect, two connections";
      outcome.passive_established = true;
    } else if (const auto* exit = event_as<TimewaitExit>(event)) {
      EXPECT_TRUE(links_.at(exit->handle).is_over);
      EXPECT_EQ(exit->local_qpn, Qpn(links_.at(exit->handle).qpn));
      forget(exit->handle);
    } else if (event_as<MraReceived>(event) != nullptr) {
      // Patience needs no deed.
    } else {
      end_and_maybe_forget(handle_of(event));
    }
  }
  void offer(const ReqReceived& req) {
    Engine& engine = host.engine();
    const std::uint64_t number = load_be(req.req.private_data, 0, 8);
    const auto choice = rng_.below(20);
    if (choice == 0 || free_.empty()) {
      EXPECT_TRUE(
          engine.reject(req.handle, mad::RejReason::ConsumerReject, {}, {}, network_.now()));
      return;
    }
    const bool may_delay = choice == 1;
    if (may_delay) {
      EXPECT_TRUE(engine.delay(req.handle, IbTimeout(14), {}, network_.now()));
    }
    const std::uint32_t qpn = take_qpn();
    AcceptParams params;
    params.local_ca_guid = host.guid();
    params.qpn = Qpn(qpn);
    params.deadline = network_.now() + minutes(10);
    if (!engine.accept(req.handle, params, network_.now())) {
      // An earlier connect with the same queue pair is not over here; the peer
      // will ask again.
      engine.abandon(req.handle, network_.now());
      free_.insert(qpn);
      return;
    }
    links_[req.handle] = {number, qpn, false, false};
  }

  Network& network_;
  Rng rng_;
  std::map<std::uint64_t, Outcome>& outcomes_;
  std::set<std::uint32_t> free_;
  std::map<Handle, Link> links_;
};

struct Weather {
  const char* name;
  test::Faults faults;
};
void PrintTo(const Weather& weather, std::ostream* out) {
  *out << weather.name;
}

class RandomNetwork : public testing::TestWithParam<Weather> {};

/// Six hosts, each connected with each:
///
///   h0 ─┬─ h1 ─┬─ h2 ─┬─ h3 ─┬─ h4 ─┬─ h5       any of them connects to any
///   other
///       └──────┴──── lossy network ──┘
TEST_P(RandomNetwork, BothEndsAgreeAndNothingIsLeft) {
  constexpr std::size_t kHosts = 6;
  const std::uint64_t connects = test::rounds(6000);
  const std::uint64_t seed = test::seed(8);
  std::map<std::uint64_t, Outcome> outcomes;
  Network network{seed};
  network.set_faults(GetParam().faults);
  Config config = Host::usual_config();
  config.min_rto = milliseconds(10);
  config.initial_rto = milliseconds(50);
  config.max_rto = milliseconds(500);
  config.disconnect_deadline = minutes(10);
  config.stale_guard = milliseconds(100);
  std::vector<std::unique_ptr<RandomHost>> hosts;
  for (std::size_t i = 0; i < kHosts; ++i) {
    hosts.push_back(std::make_unique<RandomHost>(network, seed * 100 + i, config, outcomes));
  }

  Rng& rng = network.rng();
  std::uint64_t number = 0;
  while (number < connects) {
    RandomHost& host = *hosts[rng.below(kHosts)];
    if (rng.below(2) == 0) {
      const auto peer = rng.below(kHosts);
      if (peer != host.host.id() && host.connect(peer, number)) {
        ++number;
      }
    } else if (rng.below(10) == 0) {
      host.call_one_off();
    } else {
      host.disconnect_one();
    }
    network.run_for(Duration(static_cast<std::int64_t>(rng.below(2000000))));
  }
  ASSERT_TRUE(network.run(5000000));
  for (const auto& host : hosts) {
    host->disconnect_all();
  }
  ASSERT_TRUE(network.run(5000000));

  std::uint64_t both = 0;
  for (const auto& [id, outcome] : outcomes) {
    SCOPED_TRACE(testing::Message() << "connect " << id);
    ASSERT_EQ(outcome.active_established, outcome.passive_established);
    ASSERT_EQ(outcome.active_ends, 1U);
    both += outcome.active_established ? 1 : 0;
  }
  std::printf("%llu of %llu connects established, %llu messages\n",
              static_cast<unsigned long long>(both), static_cast<unsigned long long>(connects),
              static_cast<unsigned long long>(network.stats().sent));
  EXPECT_GT(both, connects / 2) << "most connects succeed";
  for (const auto& host : hosts) {
    EXPECT_EQ(host->links(), 0U);
    EXPECT_EQ(host->free_queue_pairs(), RandomHost::kQueuePairs);
    EXPECT_EQ(host->host.engine().connections(), 0U);
    EXPECT_EQ(host->host.engine().poll_timeout(), std::nullopt);
    EXPECT_EQ(host->host.all<Failed>().size(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(
    In, RandomNetwork,
    testing::Values(Weather{"calm", {}}, Weather{"duplication", {.duplicate_percent = 50}},
                    Weather{"reordering",
                            {.reorder_percent = 30, .reorder_delay = milliseconds(20)}},
                    Weather{"loss", {.loss_percent = 20}},
                    Weather{"storm",
                            {.loss_percent = 20,
                             .duplicate_percent = 10,
                             .reorder_percent = 20,
                             .reorder_delay = milliseconds(20)}}),
    [](const auto& weather) { return std::string(weather.param.name); });

}  // namespace
}  // namespace wireup::cm
