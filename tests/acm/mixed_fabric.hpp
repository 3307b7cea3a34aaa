// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "acm/engine/messages.hpp"
#include "mad/mc_member_record.hpp"
#include "mad/path_record.hpp"
#include "mad/rate.hpp"
#include "support/sim_network.hpp"

/// A simulated fabric for ACM services of several makes, several of them on one port if need be:
///
///   service ──► unicast by LID and QPN, multicast to every member, the sender too ──► service
///      └── joins and path queries ──► SA: answers after a while, and counts what each has asked
namespace wireup::acm::test {

struct Datagram {
  Source from;
  Destination to;
  mad::Mad bytes{};
};

/// An ACM service of any make, on a port of the fabric.
class MixedService : public wireup::test::SimNetwork<Datagram>::Node {
 public:
  [[nodiscard]] virtual Lid lid() const = 0;
  [[nodiscard]] virtual Gid gid() const = 0;
  [[nodiscard]] virtual Qpn qpn() const = 0;
};

class MixedFabric {
 public:
  explicit MixedFabric(std::uint64_t seed) : net(seed) {}

  /// The service must outlive the fabric.
  std::size_t add(MixedService& service) {
    services_.push_back(&service);
    path_queries.push_back(0);
    return net.add(service);
  }
  [[nodiscard]] Instant now() const { return net.now(); }

  void transmit(std::size_t from, const Destination& to, const mad::Mad& bytes) {
    const MixedService& sender = *services_[from];
    const auto datagram = std::make_shared<const Datagram>(
        Datagram{{sender.lid(), sender.qpn(), 0, true, sender.gid()}, to, bytes});
    const bool is_multicast = to.dgid.is_multicast();
    multicasts += is_multicast ? 1 : 0;
    for (std::size_t id = 0; id < services_.size(); ++id) {
      const bool is_there = is_multicast
                                ? members_[to.dgid].contains(id)
                                : services_[id]->lid() == to.dlid && services_[id]->qpn() == to.qpn;
      if (is_there) {
        net.send(from, id, datagram);
      }
    }
  }

  void join(std::size_t service, mad::McMemberRecord record,
            std::function<void(const mad::McMemberRecord&)> done) {
    const auto next = static_cast<std::uint16_t>(0xC000 + mlids_.size());
    record.mlid = mlids_.try_emplace(record.mgid, Lid(next)).first->second;
    record.packet_lifetime_selector = mad::Selector::Exactly;
    record.packet_lifetime = 0x12;
    net.at(now() + sa_delay, [this, service, record, done = std::move(done)] {
      members_[record.mgid].emplace(service, true);
      done(record);
    });
  }

  /// Counted for the service. Nothing: there is no such port.
  void query(std::size_t service, mad::PathRecord record,
             std::function<void(const std::optional<mad::PathRecord>&)> done) {
    ++path_queries[service];
    net.at(now() + sa_delay, [this, record, done = std::move(done)]() mutable {
      const auto dlid = lid_of(record.dgid);
      const auto slid = lid_of(record.sgid);
      if (!dlid.has_value() || !slid.has_value()) {
        done(std::nullopt);
        return;
      }
      record.dlid = *dlid;
      record.slid = *slid;
      record.mtu_selector = record.rate_selector = mad::Selector::Exactly;
      record.mtu = mad::kMtu4096;
      record.rate = mad::kRate100;
      record.packet_lifetime_selector = mad::Selector::Exactly;
      record.packet_lifetime = 0x0E;
      done(record);
    });
  }

  wireup::test::SimNetwork<Datagram> net;
  /// Path queries that each service has asked.
  std::vector<std::uint64_t> path_queries;
  std::uint64_t multicasts = 0;
  Duration sa_delay = std::chrono::milliseconds(1);

 private:
  [[nodiscard]] std::optional<Lid> lid_of(const Gid& gid) const {
    for (const MixedService* service : services_) {
      if (service->gid() == gid) {
        return service->lid();
      }
    }
    return std::nullopt;
  }

  std::vector<MixedService*> services_;
  std::map<Gid, std::map<std::size_t, bool>> members_;
  std::map<Gid, Lid> mlids_;
};

}  // namespace wireup::acm::test
