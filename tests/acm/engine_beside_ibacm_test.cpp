// SPDX-License-Identifier: BSD-3-Clause
//
// An hour of simulated use with ibacm's rules on one host and ours on two: what it costs the SA,
// and that nobody takes another's route away. And what happens where two services share a port.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <variant>

#include "acm/engine/engine.hpp"
#include "acm/ibacm_model.hpp"
#include "acm/mixed_fabric.hpp"
#include "support/seed.hpp"

namespace wireup::acm::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// wireup's engine as a service of the fabric.
class EngineService final : public MixedService {
 public:
  EngineService(MixedFabric& fabric, const PortIdentity& port, std::vector<mad::AcmAddress> locals,
                const Config& config)
      : fabric_(fabric), config_(config), locals_(std::move(locals)) {
    start(port);
    id_ = fabric_.add(*this);
    drain(fabric_.now());
  }

  /// A new process on the same port.
  void restart(Qpn qpn) {
    PortIdentity port = engine_->port();
    port.qpn = qpn;
    restarts_seen_ += engine_->counters().restarts;
    ++incarnation_;
    start(port);
    drain(fabric_.now());
  }

  /// A user asks. The outcome comes in `outcomes`.
  void resolve(const mad::AcmAddress& address) {
    ASSERT_TRUE(engine_->resolve(address, fabric_.now() + seconds(15), fabric_.now()));
    drain(fabric_.now());
  }

  void forget(const mad::AcmAddress& address) {
    engine_->path_failed(address);
    drain(fabric_.now());
  }

  void deliver(const Datagram& datagram, Instant now) override {
    engine_->handle_mad(datagram.from, datagram.bytes, now);
    drain(now);
  }
  void wake(Instant now) override {
    engine_->handle_timeout(now);
    drain(now);
  }
  [[nodiscard]] std::optional<Instant> next_deadline() const override {
    return engine_->poll_timeout();
  }
  [[nodiscard]] Lid lid() const override { return engine_->port().lid; }
  [[nodiscard]] Gid gid() const override { return engine_->port().gid; }
  [[nodiscard]] Qpn qpn() const override { return engine_->port().qpn; }
  [[nodiscard]] std::size_t id() const { return id_; }
  /// How often a known address came from another queue pair than before, in all its lives.
  [[nodiscard]] std::uint64_t restarts_seen() const {
    return restarts_seen_ + engine_->counters().restarts;
  }
  [[nodiscard]] const Engine& engine() const { return *engine_; }

  std::deque<IbacmModel::Outcome> outcomes;

 private:
  void start(const PortIdentity& port) {
    engine_.emplace(config_, port, Rng(fabric_.net.rng().next()), fabric_.now(), locals_);
  }
  void drain(Instant now) {
    while (const auto command = engine_->poll_join(now)) {
      fabric_.join(id_, command->record, [this, asked_by = incarnation_](const auto& record) {
        if (asked_by == incarnation_) {
          engine_->handle_join_reply(record, fabric_.now());
          drain(fabric_.now());
        }
      });
    }
    while (const auto query = engine_->poll_path_query(now)) {
      fabric_.query(id_, query->record,
                    [this, number = query->id, asked_by = incarnation_](const auto& record) {
                      if (asked_by != incarnation_) {
                        return;
                      }
                      if (record.has_value()) {
                        engine_->handle_path_reply(number, *record, fabric_.now());
                      } else {
                        engine_->handle_path_failure(number, QueryFailure::Refused, fabric_.now());
                      }
                      drain(fabric_.now());
                    });
    }
    while (const auto transmit = engine_->poll_transmit()) {
      fabric_.transmit(id_, transmit->to, transmit->bytes);
    }
    while (const auto event = engine_->poll_event()) {
      if (const auto* learned = std::get_if<PathLearned>(&*event)) {
        if (learned->wanted) {
          outcomes.push_back({learned->address, learned->record});
        }
      } else if (const auto* failed = std::get_if<PathUnresolved>(&*event)) {
        outcomes.push_back({failed->address, std::nullopt});
      }
    }
  }

  MixedFabric& fabric_;
  Config config_;
  std::vector<mad::AcmAddress> locals_;
  std::optional<Engine> engine_;
  std::size_t id_ = 0;
  unsigned incarnation_ = 0;
  std::uint64_t restarts_seen_ = 0;
};

PortIdentity port_of(unsigned host, std::uint32_t qpn) {
  PortIdentity port;
  port.gid = Gid::make(0xFE80000000000000, Guid(0x1000 + host));
  port.lid = Lid(static_cast<std::uint16_t>(host));
  port.pkey = PKey(0xFFFF);
  port.qpn = Qpn(qpn);
  port.rate = mad::kRate100;
  port.mtu = mad::kMtu4096;
  return port;
}
mad::AcmAddress name_of(unsigned host) {
  return *mad::AcmAddress::name("node" + std::to_string(host));
}
mad::AcmAddress ip_of(unsigned host) {
  return mad::AcmAddress::ipv4({10, 77, 0, static_cast<std::uint8_t>(host)});
}
mad::AcmAddress gid_of(unsigned host) {
  return mad::AcmAddress::gid(port_of(host, 1).gid);
}
std::vector<mad::AcmAddress> addresses_of(unsigned host) {
  return {ip_of(host), name_of(host)};
}

Config served_config(Duration address_life) {
  Config config;
  config.route_protocol = RouteProtocol::Sa;
  config.address_life = address_life;
  return config;
}

constexpr Duration kAddressLife = minutes(10);
constexpr unsigned kHosts = 3;
/// Under its IP address, its name and its GID each peer is known to each other one.
constexpr std::uint64_t kEntries = std::uint64_t{3} * (kHosts - 1);

/// ibacm on host 1, ours on 2 and 3.
struct ThreeHosts {
  explicit ThreeHosts(std::uint64_t seed)
      : fabric(seed),
        ibacm(fabric, port_of(1, 0x101), addresses_of(1), {.address_life = kAddressLife}),
        second(fabric, port_of(2, 0x102), addresses_of(2), served_config(kAddressLife)),
        third(fabric, port_of(3, 0x103), addresses_of(3), served_config(kAddressLife)) {
    fabric.net.run_for(seconds(2));
  }

  std::deque<IbacmModel::Outcome>& ask(unsigned host, const mad::AcmAddress& address) {
    if (host == 1) {
      ibacm.resolve(address);
      return ibacm.outcomes;
    }
    EngineService& service = host == 2 ? second : third;
    service.resolve(address);
    return service.outcomes;
  }

  MixedFabric fabric;
  IbacmModel ibacm;
  EngineService second;
  EngineService third;
};

TEST(BesideIbacm, AnHourOfUse) {
  const std::uint64_t times = wireup::test::rounds(3);
  for (std::uint64_t round = 0; round < times; ++round) {
    const std::uint64_t seed = wireup::test::seed(11) + round;
    SCOPED_TRACE(seed);
    ThreeHosts hosts(seed);
    hosts.fabric.net.set_faults({.loss_percent = 1, .max_delay = milliseconds(1)});
    Rng rng(seed + 1000);
    const Instant end = hosts.fabric.now() + hours(1);
    unsigned asked = 0;
    std::uint32_t next_qpn = 0x200;
    std::deque<minutes> third_restarts{minutes(15), minutes(40)};
    std::deque<minutes> ibacm_restarts{minutes(30)};
    const Instant start = hosts.fabric.now();
    const auto is_due = [&](std::deque<minutes>& times_due) {
      if (times_due.empty() || hosts.fabric.now() < start + times_due.front()) {
        return false;
      }
      times_due.pop_front();
      return true;
    };
    while (hosts.fabric.now() < end) {
      if (is_due(third_restarts)) {
        hosts.third.restart(Qpn(next_qpn++));
      }
      if (is_due(ibacm_restarts)) {
        hosts.ibacm.restart(Qpn(next_qpn++));
        hosts.fabric.net.run_for(seconds(1));
      }
      const auto host = static_cast<unsigned>(1 + rng.below(kHosts));
      const auto peer = static_cast<unsigned>(1 + (host + rng.below(kHosts - 1)) % kHosts);
      // ibacm answers for its names and IP addresses only.
      const bool by_gid = host != 1 && peer != 1 && rng.below(3) == 0;
      const mad::AcmAddress address = by_gid              ? gid_of(peer)
                                      : rng.below(2) == 0 ? name_of(peer)
                                                          : ip_of(peer);
      auto& outcomes = hosts.ask(host, address);
      ++asked;
      // Up to three tries of ibacm.
      const Instant patience = hosts.fabric.now() + seconds(12);
      while (outcomes.empty() && hosts.fabric.now() < patience) {
        hosts.fabric.net.run_for(milliseconds(20));
      }
      ASSERT_EQ(outcomes.size(), 1U) << host << " asks for " << to_text(address);
      ASSERT_EQ(outcomes.front().address, address);
      ASSERT_TRUE(outcomes.front().path.has_value()) << host << " asks for " << to_text(address);
      EXPECT_EQ(outcomes.front().path->dlid, port_of(peer, 1).lid);
      EXPECT_EQ(outcomes.front().path->slid, port_of(host, 1).lid);
      EXPECT_EQ(outcomes.front().path->rate, mad::kRate100) << "the SA's path, not a group's";
      outcomes.clear();
      hosts.fabric.net.run_for(seconds(4));
    }
    EXPECT_GT(asked, 600U);

    // At the SA: each path once a life of its address, and once more after a restart.
    const std::uint64_t lives = hours(1) / kAddressLife + 1;
    for (const std::size_t id : {hosts.ibacm.id(), hosts.second.id(), hosts.third.id()}) {
      EXPECT_LE(hosts.fabric.path_queries[id], kEntries * (lives + 3)) << "service " << id;
    }
    // Everybody's entry of a source changes its queue pair when that service was restarted, and at
    // no other time.
    for (const auto& [address, flips] : hosts.ibacm.flips) {
      const bool is_thirds = address == name_of(3) || address == ip_of(3) || address == gid_of(3);
      EXPECT_LE(flips, is_thirds ? 2U : 0U) << to_text(address);
    }
    EXPECT_LE(hosts.second.restarts_seen(), 3U * 3U) << "three addresses, three restarts";
    EXPECT_LE(hosts.third.restarts_seen(), 3U) << "ibacm's restart";
  }
}

/// On host 1 ibacm and a service of ours; on 2 and 3 those who hear them.
struct SharedPort {
  explicit SharedPort(std::uint64_t seed)
      : fabric(seed),
        ibacm(fabric, port_of(1, 0x101), addresses_of(1), {}),
        beside(fabric, port_of(1, 0x111), {}, served_config(hours(24))),
        ours(fabric, port_of(2, 0x102), addresses_of(2), served_config(hours(24))),
        theirs(fabric, port_of(3, 0x103), addresses_of(3), {}) {
    fabric.net.run_for(seconds(2));
  }

  /// Both on host 1 ask for addresses that nobody has asked for yet, in turn, and are asked.
  void use(unsigned turns) {
    for (unsigned turn = 0; turn < turns; ++turn) {
      const std::string number = std::to_string(turn);
      ibacm.resolve(*mad::AcmAddress::name("nobody" + number));
      fabric.net.run_for(milliseconds(100));
      beside.resolve(*mad::AcmAddress::name("no one" + number));
      fabric.net.run_for(seconds(16));
      ours.resolve(turn % 2 == 0 ? name_of(1) : gid_of(1));
      theirs.resolve(ip_of(1));
      fabric.net.run_for(seconds(1));
    }
  }

  MixedFabric fabric;
  IbacmModel ibacm;
  EngineService beside;
  EngineService ours;
  IbacmModel theirs;
};

void expect_paths_to_the_first(const std::deque<IbacmModel::Outcome>& outcomes, std::size_t count) {
  ASSERT_EQ(outcomes.size(), count);
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome.path.has_value()) << to_text(outcome.address);
    EXPECT_EQ(outcome.path->dlid, port_of(1, 1).lid);
  }
}

TEST(BesideIbacm, ARanksResolverOnItsPortDisturbsNobody) {
  // A rank's resolver speaks for the port's GID only, and ibacm for its names and IP addresses.
  SharedPort shared(wireup::test::seed(12));
  shared.use(30);
  expect_paths_to_the_first(shared.ours.outcomes, 30);
  expect_paths_to_the_first(shared.theirs.outcomes, 30);
  EXPECT_TRUE(shared.theirs.flips.empty()) << "ibacm elsewhere takes neither for restarted";
  // An engine of ours hears both on one port and takes that for restarts, which cost nothing: the
  // path is the port's, whatever the queue pair.
  EXPECT_GT(shared.ours.restarts_seen(), 20U);
  EXPECT_LE(shared.fabric.path_queries[shared.ours.id()], 4U);
  EXPECT_LE(shared.fabric.path_queries[shared.theirs.id()], 4U);
}

/// Asks host 3, which runs ibacm, again and again, by `services` on host 1 in turn. Returns what
/// that costs ibacm there: how often it took host 1's service for restarted.
unsigned flips_at_ibacm(MixedFabric& fabric, const IbacmModel& theirs,
                        std::vector<EngineService*> services) {
  for (unsigned turn = 0; turn < 30; ++turn) {
    EngineService& service = *services[turn % services.size()];
    service.forget(ip_of(3));
    service.resolve(ip_of(3));
    fabric.net.run_for(seconds(16));
    EXPECT_EQ(service.outcomes.size(), 1U);
    for (const auto& outcome : service.outcomes) {
      EXPECT_TRUE(outcome.path.has_value() && outcome.path->dlid == port_of(3, 1).lid);
    }
    service.outcomes.clear();
  }
  unsigned flips = 0;
  for (const auto& [address, count] : theirs.flips) {
    flips += count;
  }
  return flips;
}

TEST(BesideIbacm, TwoResolversOnOnePortAreTakenForRestartsWithoutEnd) {
  // What the node's one resolver is for: both speak for the port's GID.
  MixedFabric fabric(wireup::test::seed(13));
  EngineService one(fabric, port_of(1, 0x101), {}, served_config(hours(24)));
  EngineService two(fabric, port_of(1, 0x111), {}, served_config(hours(24)));
  IbacmModel theirs(fabric, port_of(3, 0x103), addresses_of(3), {});
  fabric.net.run_for(seconds(2));
  EXPECT_GE(flips_at_ibacm(fabric, theirs, {&one, &two}), 25U);
  EXPECT_GE(fabric.path_queries[theirs.id()], 25U) << "each of them costs a query";
}

TEST(BesideIbacm, OneResolverOnAPortIsNot) {
  MixedFabric fabric(wireup::test::seed(13));
  EngineService one(fabric, port_of(1, 0x101), {}, served_config(hours(24)));
  IbacmModel theirs(fabric, port_of(3, 0x103), addresses_of(3), {});
  fabric.net.run_for(seconds(2));
  EXPECT_EQ(flips_at_ibacm(fabric, theirs, {&one}), 0U);
  EXPECT_EQ(fabric.path_queries[theirs.id()], 1U);
}

}  // namespace
}  // namespace wireup::acm::test
