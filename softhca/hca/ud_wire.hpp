// SPDX-License-Identifier: BSD-3-Clause
// The way of a datagram through the fabric: faults, routing, delivery.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "softhca/hca/asynchrony.hpp"
#include "softhca/hca/datagram.hpp"
#include "softhca/hca/pending.hpp"
#include "softhca/hca/port_cache.hpp"

namespace softhca::hca {

class Runtime;

/// Any thread.
class UdWire final : public PendingTask {
 public:
  explicit UdWire(Runtime& runtime) : runtime_(&runtime) {}
  UdWire(const UdWire&) = delete;
  UdWire& operator=(const UdWire&) = delete;
  ~UdWire() = default;

  /// Counts the datagram at its sender's port and lets it meet its fate. `route` belongs to its
  /// (from, dlid); unused for multicasts.
  void send(Datagram& datagram, RouteCache& route);

  /// How long a datagram is held back when no other follows it; 2 ms unless set.
  void set_hold_back_ns(std::uint64_t ns) { hold_back_ns_ = ns; }

  /// Lets go of the datagrams that were held back long enough.
  std::optional<std::uint64_t> progress(std::uint64_t now) override;

  /// Lets go of every datagram held back, before the process ends.
  void flush();

 private:
  struct Held {
    std::uint64_t until;
    bool overtakable;  // the sender's next datagram lets it go
    std::unique_ptr<Datagram> datagram;
  };

  void hold(const Datagram& datagram, std::uint64_t until, bool overtakable);
  std::uint64_t on_wire_until(const Datagram& datagram, const Asynchrony& mode);

  /// What rules do to a datagram on its way to `to`. False: it is lost.
  bool suffer_rules(Datagram& datagram, PortIndex to, bool& duplicate, bool& hold_back,
                    std::uint64_t& delay_ns);
  void deliver(const Datagram& datagram, RouteCache& route);
  void deliver_multicast(const Datagram& datagram);
  void deliver_to_port(const Datagram& datagram, PortIndex port);
  void deliver_to_qp(const Datagram& datagram, PortIndex port, std::uint32_t slot);
  std::vector<Held> take_overtaken();
  std::vector<Held> take_due(std::uint64_t now);

  Runtime* runtime_;
  std::atomic<std::uint64_t> hold_back_ns_{2'000'000};
  std::mutex mutex_;
  std::vector<Held> held_;
  std::uint64_t delays_drawn_ = 0;
};

}  // namespace softhca::hca
