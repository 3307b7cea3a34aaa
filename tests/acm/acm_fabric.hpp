// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "acm/engine/engine.hpp"
#include "support/sim_network.hpp"

/// ACM engines on a simulated fabric: unicast by LID, multicast by membership, and an SA.
///
///   node i: LID i + 1, GID fe80::1000 + i, QPN 0x100 + i ──► SimNetwork (loss, duplicates, order)
///      └── joins ──► SA stub: answers after a while, or is silent, or refuses; a switch learns of
///                    a new member only `mft_delay` later; paths have SL 5 and a lifetime of their
///                    own
namespace wireup::acm::test {

/// Without announcements, so that every path costs a request.
inline Config quiet(std::vector<GroupSpec> further_groups = {}) {
  Config config;
  config.announcements = 0;
  config.further_groups = std::move(further_groups);
  return config;
}

struct Packet {
  Source from;
  Destination to;
  mad::Mad bytes{};
};

inline Gid node_gid(std::size_t index) {
  return Gid::make(0xFE80000000000000, Guid(0x1000 + index));
}
inline mad::AcmAddress node_address(std::size_t index) {
  return mad::AcmAddress::gid(node_gid(index));
}
inline Lid node_lid(std::size_t index) {
  return Lid(static_cast<std::uint16_t>(index + 1));
}
inline Qpn node_qpn(std::size_t index) {
  return Qpn(static_cast<std::uint32_t>(0x100 + index));
}

inline PortIdentity node_port(std::size_t index, std::uint8_t rate = mad::kRate10,
                              std::uint8_t mtu = mad::kMtu2048) {
  PortIdentity port;
  port.gid = node_gid(index);
  port.lid = node_lid(index);
  port.pkey = PKey(0xFFFF);
  port.qpn = node_qpn(index);
  port.rate = rate;
  port.mtu = mtu;
  return port;
}

enum class SaMode { Answering, Silent, Refusing, Busy };

/// What tells the SA's paths from those made of a group.
inline constexpr Sl kSaPathSl{5};

class Fabric;

class FabricNode final : public wireup::test::SimNetwork<Packet>::Node {
 public:
  FabricNode(Fabric& fabric, std::size_t id, Engine start)
      : fabric_(fabric), id_(id), engine(std::move(start)) {}

  void deliver(const Packet& packet, Instant now) override {
    if (packet.to.dgid.is_multicast() || packet.to.qpn == engine.port().qpn) {
      engine.handle_mad(packet.from, packet.bytes, now);
      drain(now);
    }
  }
  void wake(Instant now) override {
    engine.handle_timeout(now);
    drain(now);
  }
  [[nodiscard]] std::optional<Instant> next_deadline() const override {
    return engine.poll_timeout();
  }
  void drain(Instant now);

  /// The last event about an address, and how many answered it.
  [[nodiscard]] const PathLearned* learned(const mad::AcmAddress& address) const {
    const auto at = learned_.find(address);
    return at == learned_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] const PathUnresolved* unresolved(const mad::AcmAddress& address) const {
    const auto at = unresolved_.find(address);
    return at == unresolved_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] std::size_t answers(const mad::AcmAddress& address) const {
    const auto at = answers_.find(address);
    return at == answers_.end() ? 0 : at->second;
  }

 private:
  Fabric& fabric_;
  std::size_t id_;
  std::map<mad::AcmAddress, PathLearned> learned_;
  std::map<mad::AcmAddress, PathUnresolved> unresolved_;
  std::map<mad::AcmAddress, std::size_t> answers_;

 public:
  Engine engine;
  std::vector<GroupJoined> attached;
  std::size_t invalidations = 0;
  std::vector<PathForgotten> forgotten;
  std::vector<PathQuery> queries;
  std::vector<Transmit> sent;
};

class Fabric {
 public:
  explicit Fabric(std::uint64_t seed) : net(seed) {}

  /// Adds a node whose engine starts now.
  FabricNode& add(const PortIdentity& port, const Config& config = {},
                  const std::vector<mad::AcmAddress>& locals = {}) {
    nodes.push_back(std::make_unique<FabricNode>(
        *this, nodes.size(), Engine(config, port, Rng(net.rng().next()), net.now(), locals)));
    net.add(*nodes.back());
    nodes.back()->drain(net.now());
    return *nodes.back();
  }
  FabricNode& add(const Config& config = {}) { return add(node_port(nodes.size()), config); }

  [[nodiscard]] Instant now() const { return net.now(); }
  [[nodiscard]] Result<> resolve(std::size_t from, std::size_t to, Duration limit) {
    auto result = nodes[from]->engine.resolve(node_address(to), now() + limit, now());
    nodes[from]->drain(now());
    return result;
  }

  void transmit(std::size_t from, const Transmit& transmit) {
    Packet packet{{nodes[from]->engine.port().lid, nodes[from]->engine.port().qpn, 0, true,
                   nodes[from]->engine.port().gid},
                  transmit.to,
                  transmit.bytes};
    const auto shared = std::make_shared<const Packet>(packet);
    if (!transmit.to.dgid.is_multicast()) {
      for (std::size_t to = 0; to < nodes.size(); ++to) {
        if (nodes[to]->engine.port().lid == transmit.to.dlid) {
          net.send(from, to, shared);
        }
      }
      return;
    }
    // Everyone hears it, the sender too.
    for (const auto& [to, since] : members[transmit.to.dgid]) {
      if (since <= now()) {
        net.send(from, to, shared);
      }
    }
  }

  void join(std::size_t node, const JoinCommand& command) {
    ++joins_asked;
    Duration delay = sa_delay;
    if (sa_mode == SaMode::Silent) {
      delay = sa_timeout;
    }
    net.at(now() + delay, [this, node, command, mode = sa_mode] {
      FabricNode& asker = *nodes[node];
      if (mode == SaMode::Answering && !refused.contains(command.record.mgid)) {
        mad::McMemberRecord reply = command.record;
        reply.mlid = mlid(command.record.mgid);
        reply.packet_lifetime_selector = mad::Selector::Exactly;
        reply.packet_lifetime = group_lifetime;
        reply.sl = keep_asked_sl ? reply.sl : group_sl;
        members[command.record.mgid].try_emplace(node, now() + mft_delay);
        asker.engine.handle_join_reply(reply, now());
      } else {
        asker.engine.handle_join_failure(
            command.record.mgid,
            mode == SaMode::Silent ? JoinFailure::NoAnswer : JoinFailure::Refused, now());
      }
      asker.drain(now());
    });
  }

  void query(std::size_t node, const PathQuery& query) {
    ++queries_asked;
    last_query = now();
    most_queries_in_flight = std::max(most_queries_in_flight, ++queries_in_flight_);
    net.at(now() + (path_mode == SaMode::Silent ? sa_timeout : sa_delay),
           [this, node, query, mode = path_mode] {
             --queries_in_flight_;
             FabricNode& asker = *nodes[node];
             const auto record = mode == SaMode::Answering ? path(query.record) : std::nullopt;
             if (record.has_value()) {
               asker.engine.handle_path_reply(query.id, *record, now());
             } else {
               asker.engine.handle_path_failure(query.id, failure_of(mode), now());
             }
             asker.drain(now());
           });
  }

  /// All paths of a node at once, or which of their ends are switches.
  void table(std::size_t node, const TableQuery& query) {
    const bool is_paths = query.kind == TableQuery::Kind::Paths;
    ++(is_paths ? tables_asked : switches_asked);
    net.at(now() + (table_mode == SaMode::Silent ? sa_timeout : table_delay),
           [this, node, query, is_paths, mode = is_paths ? table_mode : switch_mode] {
             FabricNode& asker = *nodes[node];
             if (mode != SaMode::Answering) {
               asker.engine.handle_table_failure(query.id, failure_of(mode), now());
               asker.drain(now());
               return;
             }
             if (!is_paths) {
               asker.engine.handle_switches(query.id, switches, now());
               asker.drain(now());
               return;
             }
             std::vector<mad::PathRecord> records = without_acm;
             for (const auto& to : nodes) {
               mad::PathRecord asked = query.record;
               asked.dgid = to->engine.port().gid;
               records.push_back(*path(asked));
             }
             for (mad::PathRecord& record : records) {
               record.sgid = query.record.sgid;
               record.slid = asker.engine.port().lid;
               record.pkey = query.record.pkey;
             }
             asker.engine.handle_path_table(query.id, records, now());
             asker.drain(now());
           });
  }

  [[nodiscard]] Lid mlid(const Gid& mgid) {
    const auto next = static_cast<std::uint16_t>(0xC000 + mlids_.size());
    return mlids_.try_emplace(mgid, Lid(next)).first->second;
  }

  wireup::test::SimNetwork<Packet> net;
  std::vector<std::unique_ptr<FabricNode>> nodes;
  std::map<Gid, std::map<std::size_t, Instant>> members;
  SaMode sa_mode = SaMode::Answering;
  SaMode path_mode = SaMode::Answering;
  SaMode table_mode = SaMode::Answering;
  /// Of all paths that the SA gives, but those that have one of their own.
  Sl path_sl = kSaPathSl;
  std::map<Gid, Sl> sl_to;
  /// Paths of tables to ports that run nothing of ours.
  std::vector<mad::PathRecord> without_acm;
  std::size_t tables_asked = 0;
  std::vector<Guid> switches;
  SaMode switch_mode = SaMode::Answering;
  std::size_t switches_asked = 0;
  Duration table_delay = std::chrono::milliseconds(1);
  Instant last_query;
  std::size_t queries_asked = 0;
  std::size_t most_queries_in_flight = 0;
  /// Groups that the SA does not grant.
  std::set<Gid> refused;
  Sl group_sl;
  std::uint8_t group_lifetime = 0x12;
  bool keep_asked_sl = false;
  /// Nodes remember what they learned without asking; too much for a thousand of them.
  bool keep_snooped = true;
  Duration sa_delay = std::chrono::milliseconds(1);
  Duration sa_timeout = std::chrono::milliseconds(900);
  Duration mft_delay{};
  std::size_t joins_asked = 0;

 private:
  [[nodiscard]] std::optional<Lid> lid_of(const Gid& gid) const {
    for (const auto& node : nodes) {
      if (node->engine.port().gid == gid) {
        return node->engine.port().lid;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<mad::PathRecord> path(const mad::PathRecord& asked) const {
    const auto dlid = lid_of(asked.dgid);
    const auto slid = lid_of(asked.sgid);
    if (!dlid.has_value() || !slid.has_value()) {
      return std::nullopt;
    }
    mad::PathRecord record = asked;
    record.dlid = *dlid;
    record.slid = *slid;
    const auto own = sl_to.find(asked.dgid);
    record.sl = own == sl_to.end() ? path_sl : own->second;
    record.mtu_selector = mad::Selector::Exactly;
    record.mtu = mad::kMtu4096;
    record.rate_selector = mad::Selector::Exactly;
    record.rate = mad::kRate100;
    record.packet_lifetime = 0x0E;
    return record;
  }
  [[nodiscard]] static QueryFailure failure_of(SaMode mode) {
    switch (mode) {
      case SaMode::Silent:
        return QueryFailure::NoAnswer;
      case SaMode::Busy:
        return QueryFailure::Busy;
      case SaMode::Answering:
      case SaMode::Refusing:
        break;
    }
    return QueryFailure::Refused;
  }

  std::size_t queries_in_flight_ = 0;
  std::map<Gid, Lid> mlids_;
};

inline void FabricNode::drain(Instant now) {
  while (const auto command = engine.poll_join(now)) {
    fabric_.join(id_, *command);
  }
  while (const auto query = engine.poll_path_query(now)) {
    queries.push_back(*query);
    fabric_.query(id_, *query);
  }
  while (const auto query = engine.poll_table_query(now)) {
    fabric_.table(id_, *query);
  }
  while (const auto transmit = engine.poll_transmit()) {
    sent.push_back(*transmit);
    fabric_.transmit(id_, *transmit);
  }
  while (const auto event = engine.poll_event()) {
    if (const auto* path = std::get_if<PathLearned>(&*event)) {
      if (path->wanted || fabric_.keep_snooped) {
        learned_.insert_or_assign(path->address, *path);
      }
      answers_[path->address] += path->wanted ? 1 : 0;
    } else if (const auto* failed = std::get_if<PathUnresolved>(&*event)) {
      unresolved_.insert_or_assign(failed->address, *failed);
      ++answers_[failed->address];
    } else if (const auto* joined = std::get_if<GroupJoined>(&*event)) {
      attached.push_back(*joined);
    } else if (const auto* forgot = std::get_if<PathForgotten>(&*event)) {
      forgotten.push_back(*forgot);
    } else {
      ++invalidations;
    }
  }
}

}  // namespace wireup::acm::test
