// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <variant>
#include <vector>

#include "acm/acm_fabric.hpp"
#include "support/byte_source.hpp"

namespace wireup::acm::test {

using wireup::test::ByteSource;

/// One engine under a sequence of calls that a string of bytes describes, and what must hold after
/// each of them. For the fuzzer and for properties: every string is a sequence.
class EngineModel {
 public:
  explicit EngineModel(std::span<const std::uint8_t> bytes)
      : in_(bytes), config_(make_config()), engine_(config_, port(), Rng(7), now_, {name(0)}) {}

  /// The first thing that did not hold; null when all did.
  const char* run() {
    std::size_t steps = 0;
    while (failure_ == nullptr && !in_.is_empty() && ++steps < 4096) {
      step();
      drain();
      look();
    }
    if (failure_ == nullptr) {
      end();
    }
    return failure_;
  }
  [[nodiscard]] const Engine& engine() const { return engine_; }

 private:
  static constexpr std::size_t kPeers = 12;
  static constexpr std::uint8_t kBulk = 0x20;
  static constexpr Duration kLongest = std::chrono::milliseconds(256 * 40);

  Config make_config() {
    Config config;
    config.window = 1 + in_.below(4);
    config.max_entries = 4 + in_.below(12);
    config.max_transmits = 4 + in_.below(12);
    config.max_addresses_per_port = 1 + in_.below(4);
    config.max_tries = static_cast<unsigned>(in_.below(4) * 3);
    config.announcements = static_cast<unsigned>(in_.below(3));
    config.sa_window = 1 + in_.below(3);
    config.sa_max_window = config.sa_window + in_.below(3);
    config.address_life = std::chrono::seconds(1 + in_.below(60));
    config.route_life = std::chrono::seconds(1 + in_.below(60));
    config.route_protocol = in_.below(2) == 0 ? RouteProtocol::Acm : RouteProtocol::Sa;
    if (in_.below(2) == 0) {
      config.further_groups.push_back({0, 0, Sl(4), kBulk});
    }
    return config;
  }
  [[nodiscard]] PortIdentity port() const {
    PortIdentity port = node_port(0, mad::kRate40, mad::kMtu4096);
    port.lid = Lid(static_cast<std::uint16_t>(100 + moves_));
    return port;
  }
  static mad::AcmAddress name(std::size_t index) {
    const std::array<char, 1> text{static_cast<char>('a' + index)};
    return *mad::AcmAddress::name({text.data(), text.size()});
  }
  static Source source(std::size_t peer, std::size_t restarts) {
    return {node_lid(peer), Qpn(static_cast<std::uint32_t>(0x100 + peer + restarts)), 0, true,
            node_gid(peer)};
  }
  mad::AcmAddress address() {
    const std::size_t peer = in_.below(kPeers);
    switch (in_.below(5)) {
      case 0:
        return name(peer);
      case 1:
        return mad::AcmAddress::ipv4({10, 0, 0, static_cast<std::uint8_t>(peer)});
      case 2:
        return mad::AcmAddress::lid(node_lid(peer));
      case 3:
        return mad::AcmAddress::ipv6({0x20, 1, static_cast<std::uint8_t>(peer)});
      default:
        return node_address(peer);
    }
  }
  std::uint8_t traffic_class() { return in_.below(3) == 0 ? kBulk : std::uint8_t{0}; }

  void step() {
    switch (in_.below(16)) {
      case 0:
      case 1:
      case 2:
        resolve();
        return;
      case 3:
      case 4:
        answer_join();
        return;
      case 5:
      case 6:
        hear_response();
        return;
      case 7:
      case 8:
        hear_request();
        return;
      case 9:
      case 10:
        answer_query();
        return;
      case 11:
        engine_.path_failed(address());
        return;
      case 12:
        hear_noise();
        return;
      case 13:
        change();
        return;
      default:
        now_ += std::chrono::milliseconds(in_.next() * 4);
        engine_.handle_timeout(now_);
        return;
    }
  }

  void resolve() {
    const Target target{address(), traffic_class()};
    const Instant deadline = now_ + std::chrono::milliseconds(in_.next() * 40);
    if (engine_.resolve(target.address, deadline, now_, target.traffic_class)) {
      waiting_.insert(target);
    }
  }
  void answer_join() {
    if (joins_.empty()) {
      return;
    }
    mad::McMemberRecord reply = joins_.front().record;
    joins_.pop_front();
    reply.mlid = Lid(0xC001);
    switch (in_.below(6)) {
      case 0:
        engine_.handle_join_failure(reply.mgid, JoinFailure::NoAnswer, now_);
        return;
      case 1:
        reply.mlid = Lid(in_.next());
        break;
      case 2:
        reply.sl = Sl(static_cast<std::uint8_t>(in_.below(16)));
        break;
      default:
        break;
    }
    engine_.handle_join_reply(reply, now_);
  }
  void hear_response() {
    if (asked_.empty()) {
      return;
    }
    const mad::AcmRequest& request = asked_[in_.below(asked_.size())];
    mad::AcmResponse response{request.tid, 0, request.groups.gids[in_.below(request.groups.count)]};
    if (in_.below(8) == 0) {
      response = {request.tid, 3, std::nullopt};
    }
    mad::Mad bytes;
    mad::serialize(response, bytes);
    engine_.handle_mad(source(in_.below(kPeers), in_.below(2)), bytes, now_);
  }
  mad::AcmRequest request() {
    mad::AcmRequest request{Tid(in_.next()), address(), address(), {}};
    const std::array groups{
        group_mgid(PKey(0xFFFF), 0, mad::kRate10, mad::kMtu2048),
        group_mgid(PKey(0xFFFF), 0, mad::kRate40, mad::kMtu4096),
        group_mgid(PKey(0xFFFF), kBulk, mad::kRate40, mad::kMtu4096),
        group_mgid(PKey(0x8001), 0, mad::kRate10, mad::kMtu2048),
    };
    request.groups.count = 1 + in_.below(groups.size());
    for (std::size_t i = 0; i < request.groups.count; ++i) {
      request.groups.gids[i] = groups[in_.below(groups.size())];
    }
    return request;
  }
  void hear_request() {
    mad::Mad bytes;
    mad::serialize(request(), bytes);
    engine_.handle_mad(source(in_.below(kPeers), in_.below(2)), bytes, now_);
  }
  void hear_noise() {
    mad::Mad bytes;
    mad::serialize(request(), bytes);
    for (std::size_t changes = in_.below(8); changes > 0; --changes) {
      bytes[in_.next()] = in_.next();
    }
    Source from = source(in_.below(kPeers), 0);
    from.has_grh = in_.below(8) != 0;
    from.path_bits = in_.next();
    engine_.handle_mad(from, {bytes.data(), in_.below(16) == 0 ? in_.next() : bytes.size()}, now_);
  }
  void answer_query() {
    if (queries_.empty()) {
      return;
    }
    const PathQuery query = queries_.front();
    queries_.pop_front();
    if (in_.below(3) == 0) {
      engine_.handle_path_failure(query.id, static_cast<QueryFailure>(in_.below(3)), now_);
      return;
    }
    mad::PathRecord record = query.record;
    record.dlid = Lid(static_cast<std::uint16_t>(1 + in_.below(kPeers)));
    record.slid = port().lid;
    record.mtu = static_cast<std::uint8_t>(in_.below(8) == 0 ? 9 : mad::kMtu4096);
    engine_.handle_path_reply(query.id, record, now_);
  }
  void change() {
    switch (in_.below(8)) {
      case 0:
        ++moves_;
        joins_.clear();
        queries_.clear();
        asked_.clear();
        engine_.port_changed(port(), now_);
        return;
      case 1:
        engine_.rejoin(now_);
        return;
      case 2:
        engine_.routes_changed(now_);
        return;
      case 3:
        engine_.set_locals({name(in_.below(kPeers)), name(in_.below(kPeers))});
        return;
      default:
        check(Engine(engine_) == engine_, "a copy is equal");
        return;
    }
  }

  void drain() {
    while (const auto command = engine_.poll_join(now_)) {
      joins_.push_back(*command);
    }
    while (const auto query = engine_.poll_path_query(now_)) {
      queries_.push_back(*query);
    }
    check(queries_.size() <= config_.sa_max_window, "queries in flight are bounded");
    std::size_t transmits = 0;
    while (const auto transmit = engine_.poll_transmit()) {
      ++transmits;
      const auto message = mad::parse_acm(transmit->bytes);
      check(message.has_value(), "what is sent is of the format");
      if (const auto* request = message ? std::get_if<mad::AcmRequest>(&*message) : nullptr) {
        check(transmit->to.dgid.is_multicast(), "requests go to a group");
        if (transmit->kind == TransmitKind::Request) {
          asked_.push_back(*request);
        }
      }
    }
    // Announcements come on top.
    check(transmits <= config_.max_transmits + 1, "what waits to be sent is bounded");
    while (const auto event = engine_.poll_event()) {
      handle(*event);
    }
  }
  void handle(const Event& event) {
    if (const auto* learned = std::get_if<PathLearned>(&event)) {
      const mad::PathRecord& record = learned->record;
      check(record.sgid == port().gid && has_lid(port(), record.slid), "a path starts at our port");
      check(!record.dlid.is_zero() && record.dlid.value() < 0xC000, "and ends at a port");
      if (learned->wanted) {
        answered({learned->address, learned->traffic_class});
      }
    } else if (const auto* failed = std::get_if<PathUnresolved>(&event)) {
      answered({failed->address, failed->traffic_class});
    }
  }
  void answered(const Target& target) {
    check(waiting_.erase(target) == 1, "every answer is waited for");
  }
  void look() {
    check(engine_.pending() == waiting_.size(), "who waits is in the table");
    check(engine_.entries() <= config_.max_entries, "the table is bounded");
    check(waiting_.empty() || engine_.poll_timeout().has_value(), "who waits has a timer");
  }
  /// All deadlines pass: nobody is left waiting.
  void end() {
    now_ += kLongest + std::chrono::seconds(1);
    engine_.handle_timeout(now_);
    drain();
    check(waiting_.empty() && engine_.pending() == 0, "everyone is answered at the deadline");
  }
  void check(bool holds, const char* what) {
    if (!holds && failure_ == nullptr) {
      failure_ = what;
    }
  }

  ByteSource in_;
  Instant now_{std::chrono::seconds(1)};
  std::size_t moves_ = 0;
  const char* failure_ = nullptr;
  Config config_;
  Engine engine_;
  std::set<Target> waiting_;
  std::deque<JoinCommand> joins_;
  std::deque<PathQuery> queries_;
  std::deque<mad::AcmRequest> asked_;
};

}  // namespace wireup::acm::test
