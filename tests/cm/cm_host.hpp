// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "cm/engine/engine.hpp"
#include "support/seed.hpp"
#include "support/sim_network.hpp"

namespace wireup::cm {

/// A CM datagram with what its completion would say of the sender.
struct Datagram {
  Address from;
  std::optional<mad::CmKind> kind;
  mad::Mad bytes{};
};

using Network = test::SimNetwork<Datagram>;

inline constexpr ServiceId kService{0x1000000000000042ULL};

template <typename T>
const T* event_as(const Event& event) {
  return std::get_if<T>(&event);
}

/// An engine on a simulated network with a consumer that does the usual:
/// accepts what is offered, establishes what is accepted. A test looks at
/// `events` and changes `on_event`.
class Host final : public Network::Node {
 public:
  Host(Network& network, std::uint64_t seed, const Config& config = usual_config())
      : network_(network), id_(network.add(*this)), config_(config), engine_(config, Rng(seed)) {
    engine_.listen(kService);
  }
  /// The process is gone and another one runs in its place, which knows nothing of it and listens
  /// on nothing yet; datagrams under way to the former reach the latter.
  void restart(std::uint64_t seed) { engine_ = Engine(config_, Rng(seed)); }

  [[nodiscard]] static Config usual_config() {
    Config config;
    config.timewait = std::chrono::milliseconds(200);
    return config;
  }

  // How hosts are addressed: by their number.
  [[nodiscard]] static Address address_of(Network::NodeId id) {
    Address address;
    address.dlid = Lid(static_cast<std::uint16_t>(10 + id));
    address.qpn = Qpn(static_cast<std::uint32_t>(0x1000 + id));
    return address;
  }
  [[nodiscard]] static Network::NodeId host_at(const Address& address) {
    return address.dlid.value() - 10U;
  }
  [[nodiscard]] Guid guid() const { return Guid(0xA0000 + id_); }
  [[nodiscard]] Network::NodeId id() const { return id_; }

  [[nodiscard]] ConnectParams connect_params(Network::NodeId peer, std::uint32_t qpn,
                                             Duration limit = std::chrono::seconds(30)) const {
    ConnectParams params;
    params.to = address_of(peer);
    params.service_id = kService;
    params.local_ca_guid = guid();
    params.qpn = Qpn(qpn);
    params.starting_psn = Psn(qpn ^ 0x5A5A5A);
    params.path.slid = address_of(id_).dlid;
    params.path.dlid = params.to.dlid;
    params.path.pkey = PKey(0xFFFF);
    params.path.mtu = 5;
    params.path.rate = 7;
    params.path.packet_lifetime = 14;
    params.deadline = network_.now() + limit;
    return params;
  }
  Handle connect(Network::NodeId peer, std::uint32_t qpn,
                 Duration limit = std::chrono::seconds(30)) {
    return connect(connect_params(peer, qpn, limit));
  }
  Handle connect(const ConnectParams& params) {
    const auto handle = engine_.connect(params, network_.now());
    WIREUP_CHECK(handle.has_value());
    flush();
    return *handle;
  }
  /// What accept() is given for an offer unless a test does it by itself.
  [[nodiscard]] AcceptParams accept_params() {
    AcceptParams params;
    params.local_ca_guid = guid();
    params.qpn = Qpn(next_qpn_++);
    params.starting_psn = Psn(params.qpn.value() ^ 0xA5A5A5);
    return params;
  }
  Result<> accept(Handle handle) { return engine_.accept(handle, accept_params(), network_.now()); }
  Result<> disconnect(Handle handle) {
    auto result = engine_.disconnect(handle, {}, network_.now());
    flush();
    return result;
  }

  /// Takes everything out of the engine: datagrams to the network, events to
  /// the consumer.
  void flush() {
    bool more = true;
    while (more) {
      more = false;
      while (auto transmit = engine_.poll_transmit()) {
        more = true;
        network_.send(id_, host_at(transmit->to),
                      Datagram{address_of(id_), transmit->kind, transmit->bytes});
      }
      while (auto event = engine_.poll_event()) {
        more = true;
        events.push_back(*event);
        if (!on_event || !on_event(*event)) {
          usual(*event);
        }
      }
      while (auto event = engine_.poll_sidr_event()) {
        more = true;
        sidr_events.push_back(*event);
        if (on_sidr) {
          on_sidr(*event);
        }
      }
    }
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

  [[nodiscard]] Engine& engine() { return engine_; }
  /// The events of one type, in order.
  template <typename T>
  [[nodiscard]] std::vector<T> all() const {
    std::vector<T> found;
    for (const Event& event : events) {
      if (const T* e = event_as<T>(event)) {
        found.push_back(*e);
      }
    }
    return found;
  }
  [[nodiscard]] std::uint64_t sent(mad::CmKind kind) const {
    return engine_.counters().sent[mad::index_of(kind)];
  }
  [[nodiscard]] std::uint64_t sent_in_all() const {
    std::uint64_t sum = 0;
    for (const auto count : engine_.counters().sent) {
      sum += count;
    }
    return sum;
  }
  [[nodiscard]] std::uint64_t retransmitted_in_all() const {
    std::uint64_t sum = 0;
    for (const auto count : engine_.counters().retransmitted) {
      sum += count;
    }
    return sum;
  }
  [[nodiscard]] std::uint64_t dropped(DropReason reason) const {
    return engine_.counters().dropped[static_cast<std::size_t>(reason)];
  }

  std::vector<Event> events;
  std::vector<SidrEvent> sidr_events;
  std::function<void(const SidrEvent&)> on_sidr;
  /// Sees each event first; true = dealt with. May call the engine, not
  /// flush().
  std::function<bool(const Event&)> on_event;

 private:
  void usual(const Event& event) {
    if (const auto* req = event_as<ReqReceived>(event)) {
      WIREUP_CHECK(accept(req->handle).has_value());
    } else if (const auto* rep = event_as<RepReceived>(event)) {
      WIREUP_CHECK(engine_.establish(rep->handle, {}, network_.now()).has_value());
    }
  }

  Network& network_;
  Network::NodeId id_;
  Config config_;
  Engine engine_;
  std::uint32_t next_qpn_ = 0x800000;
};

/// Drops the first `count` datagrams of a kind that `from` sends.
inline std::function<bool(Network::NodeId, Network::NodeId, const Datagram&)> lose(
    Network::NodeId from, mad::CmKind kind, unsigned count = 1) {
  auto left = std::make_shared<unsigned>(count);
  return [=](Network::NodeId sender, Network::NodeId, const Datagram& datagram) {
    if (sender == from && datagram.kind == kind && *left > 0) {
      --*left;
      return true;
    }
    return false;
  };
}

}  // namespace wireup::cm
