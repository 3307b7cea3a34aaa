// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "conn/engine/engine.hpp"
#include "support/seed.hpp"
#include "support/sim_network.hpp"

namespace wireup::conn {

/// A CM datagram with what its completion would say of the sender.
struct Datagram {
  cm::Address from;
  std::optional<mad::CmKind> kind;
  mad::Mad bytes{};
};
using Network = test::SimNetwork<Datagram>;

inline constexpr std::uint64_t kJob = 0x6A6F62;

/// A queue pair of the simulated adapter.
struct SimQp {
  enum class State { Init, Rts, Error };
  Qpn qpn;
  State state = State::Init;
  QpAttributes attributes;
  friend bool operator==(const SimQp&, const SimQp&) = default;
};

/// How ranks are addressed: LID, GID and CM queue pair by rank.
struct Place {
  [[nodiscard]] static Lid lid(std::uint32_t rank) {
    return Lid(static_cast<std::uint16_t>(10 + rank));
  }
  [[nodiscard]] static Gid gid(std::uint32_t rank) {
    return Gid::make(0xFE80'0000'0000'0000, Guid(0xA0000 + rank));
  }
  [[nodiscard]] static Qpn cm_qpn(std::uint32_t rank) { return Qpn(0x1000 + rank); }
  [[nodiscard]] static std::uint32_t rank_at(Lid lid) { return lid.value() - 10U; }
  [[nodiscard]] static std::uint64_t incarnation(std::uint32_t rank) { return 0xCAFE00 + rank; }

  /// A path whose fields differ by direction.
  [[nodiscard]] static mad::PathRecord path(std::uint32_t from, std::uint32_t to) {
    mad::PathRecord record;
    record.slid = lid(from);
    record.dlid = lid(to);
    record.sgid = gid(from);
    record.dgid = gid(to);
    record.pkey = PKey(0xFFFF);
    record.mtu = from < to ? 5 : 4;
    record.rate = from < to ? 7 : 3;
    record.sl = Sl(from < to ? 2 : 5);
    record.traffic_class = from < to ? 11 : 22;
    record.packet_lifetime = 14;
    return record;
  }
};

/// One rank: the engine with a driver that answers commands from its tables. Tests look at
/// `events` and change the `answer_...` functions.
class Rank final : public Network::Node {
 public:
  [[nodiscard]] static Config usual_config(std::uint32_t rank, std::uint32_t size) {
    Config config;
    config.self = {kJob, rank};
    config.job_size = size;
    config.incarnation = Place::incarnation(rank);
    config.port_name = "sim0 port 1";
    config.ca_guid = Guid(0xB0000 + rank);
    config.gid = Place::gid(rank);
    config.lid = Place::lid(rank);
    config.pkey = PKey(0xFFFF);
    config.mtu = 5;
    config.responder_resources = 4;
    config.initiator_depth = 8;
    config.cm.timewait = std::chrono::milliseconds(200);
    return config;
  }

  Rank(Network& network, const Config& config, std::uint64_t seed)
      : network_(network), id_(network.add(*this)), engine_(config, Rng(seed)) {
    WIREUP_CHECK(id_ == config.self.rank);
  }
  Rank(Network& network, std::uint32_t rank, std::uint32_t size, std::uint64_t seed = 1)
      : Rank(network, usual_config(rank, size), seed * 1000 + rank) {}

  [[nodiscard]] std::uint32_t rank() const { return static_cast<std::uint32_t>(id_); }
  [[nodiscard]] PeerId self() const { return {kJob, rank()}; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const Engine& engine() const { return engine_; }

  Result<> connect(std::uint32_t peer, Duration limit = std::chrono::seconds(20)) {
    auto result = engine_.connect({kJob, peer}, network_.now() + limit, network_.now());
    flush();
    return result;
  }
  Result<> close(std::uint32_t peer) {
    auto result = engine_.close({kJob, peer}, network_.now());
    flush();
    return result;
  }

  void deliver(const Datagram& datagram, Instant now) override {
    engine_.handle_mad(datagram.from, datagram.bytes, now);
    flush();
  }
  void wake(Instant now) override {
    engine_.handle_timeout(now);
    flush();
  }
  [[nodiscard]] std::optional<Instant> next_deadline() const override {
    return engine_.poll_timeout();
  }

  /// Takes everything out of the engine.
  void flush() {
    bool more = true;
    while (more) {
      more = false;
      while (auto command = engine_.poll_command()) {
        more = true;
        std::visit([this](const auto& c) { run(c); }, *command);
      }
      while (auto transmit = engine_.poll_transmit()) {
        more = true;
        ++sent[transmit->kind];
        cm::Address from;
        from.dlid = Place::lid(rank());
        from.qpn = Place::cm_qpn(rank());
        network_.send(id_, Place::rank_at(transmit->to.dlid),
                      Datagram{from, transmit->kind, transmit->bytes});
      }
      while (auto event = engine_.poll_event()) {
        more = true;
        events.push_back(*event);
      }
    }
  }

  /// The events of one type, in order.
  template <typename T>
  [[nodiscard]] std::vector<T> all() const {
    std::vector<T> found;
    for (const Event& event : events) {
      if (const T* e = std::get_if<T>(&event)) {
        found.push_back(*e);
      }
    }
    return found;
  }
  [[nodiscard]] std::uint64_t sent_in_all() const {
    std::uint64_t sum = 0;
    for (const auto& [kind, count] : sent) {
      sum += count;
    }
    return sum;
  }
  /// The queue pair of the ready connection to `peer`; null without one.
  [[nodiscard]] const SimQp* qp(std::uint32_t peer) const {
    const Connection* c = engine_.ready({kJob, peer});
    return c != nullptr ? &qps.at(c->id) : nullptr;
  }

  std::vector<Event> events;
  std::map<ConnectionId, SimQp> qps;
  std::map<std::optional<mad::CmKind>, std::uint64_t> sent;

  /// What the driver answers, and when: by default at once and well.
  std::function<Result<PeerCard>(std::uint32_t peer)> answer_card = [](std::uint32_t peer) {
    return Result<PeerCard>(PeerCard{Place::incarnation(peer), Place::gid(peer), Place::lid(peer),
                                     PKey(0xFFFF), Place::cm_qpn(peer)});
  };
  std::function<Result<Path>(std::uint32_t peer)> answer_path = [this](std::uint32_t peer) {
    return Result<Path>(Path{Place::path(rank(), peer), 2});
  };
  std::function<Result<>()> answer_create = [] { return Result<>{}; };
  std::function<Result<>()> answer_connect = [] { return Result<>{}; };
  std::function<Duration()> answer_delay = [] { return Duration(0); };
  /// False: cards are never answered.
  bool answers_cards = true;
  bool answers_paths = true;

 private:
  void later(std::function<void()> action) {
    const Duration delay = answer_delay();
    if (delay == Duration(0)) {
      action();
    } else {
      network_.at(network_.now() + delay, [this, action = std::move(action)] {
        action();
        flush();
      });
    }
  }

  void run(const RequestCard& command) {
    if (answers_cards) {
      later([this, command] {
        engine_.handle_card(command.peer, answer_card(command.peer.rank), network_.now());
      });
    }
  }
  void run(const RequestPath& command) {
    if (answers_paths) {
      later([this, command] {
        const auto peer = static_cast<std::uint32_t>(command.dgid.interface_id().value() - 0xA0000);
        engine_.handle_path(command.id, answer_path(peer), network_.now());
      });
    }
  }
  void run(const CreateQp& command) {
    auto made = answer_create();
    if (!made) {
      engine_.handle_qp_created(command.id, fail(made.error()), network_.now());
      return;
    }
    SimQp& qp = qps[command.id];
    qp.qpn = Qpn(next_qpn_++);
    engine_.handle_qp_created(command.id, qp.qpn, network_.now());
  }
  void run(const ConnectQp& command) {
    auto done = answer_connect();
    if (done) {
      SimQp& qp = qps.at(command.id);
      WIREUP_CHECK(qp.state == SimQp::State::Init);
      qp.state = SimQp::State::Rts;
      qp.attributes = command.attributes;
    }
    engine_.handle_qp_connected(command.id, done, network_.now());
  }
  void run(const BreakQp& command) {
    if (const auto qp = qps.find(command.id); qp != qps.end()) {
      qp->second.state = SimQp::State::Error;
    }
  }
  void run(const ReleaseQp& command) { WIREUP_CHECK(qps.erase(command.id) == 1); }

  Network& network_;
  Network::NodeId id_;
  Engine engine_;
  std::uint32_t next_qpn_ = 0x400;
};

/// Ranks on one network.
class World {
 public:
  explicit World(std::uint32_t size, std::uint64_t seed = 1) : network(seed) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      ranks.push_back(std::make_unique<Rank>(network, rank, size, seed));
    }
  }
  [[nodiscard]] Rank& operator[](std::uint32_t rank) { return *ranks[rank]; }

  Network network;
  std::vector<std::unique_ptr<Rank>> ranks;
};

/// Both ends have the one connection, and their queue pairs fit each other.
inline void expect_connected(const Rank& a, const Rank& b) {
  const SimQp* one = a.qp(b.rank());
  const SimQp* other = b.qp(a.rank());
  ASSERT_NE(one, nullptr) << "rank " << a.rank() << " to " << b.rank();
  ASSERT_NE(other, nullptr) << "rank " << b.rank() << " to " << a.rank();
  EXPECT_EQ(one->state, SimQp::State::Rts);
  EXPECT_EQ(other->state, SimQp::State::Rts);
  EXPECT_EQ(one->attributes.peer_qpn, other->qpn);
  EXPECT_EQ(other->attributes.peer_qpn, one->qpn);
  EXPECT_EQ(one->attributes.receive_psn, other->attributes.send_psn);
  EXPECT_EQ(other->attributes.receive_psn, one->attributes.send_psn);
  EXPECT_EQ(one->attributes.mtu, other->attributes.mtu);
  EXPECT_LE(one->attributes.initiator_depth, other->attributes.responder_resources);
  EXPECT_LE(other->attributes.initiator_depth, one->attributes.responder_resources);
  EXPECT_EQ(a.engine().ready(b.self())->epoch, b.engine().ready(a.self())->epoch);
}

/// Both ends have it, or neither.
inline void expect_agreement(const Rank& a, const Rank& b) {
  if (a.qp(b.rank()) != nullptr || b.qp(a.rank()) != nullptr) {
    expect_connected(a, b);
  }
}

/// Nothing is left behind: no timer, no attempt, no queue pair but those of ready connections.
inline void expect_settled(const Rank& rank) {
  EXPECT_FALSE(rank.engine().poll_timeout().has_value()) << "rank " << rank.rank();
  EXPECT_EQ(rank.engine().pending_count(), 0U) << "rank " << rank.rank();
  EXPECT_EQ(rank.qps.size(), rank.engine().ready_count()) << "rank " << rank.rank();
}

}  // namespace wireup::conn
