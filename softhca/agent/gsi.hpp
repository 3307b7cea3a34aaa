// SPDX-License-Identifier: BSD-3-Clause
// What the kernel's MAD layer does for QP 1 of every port: finds the agent that a MAD is for and
// the request that it answers, repeats a request that got no answer, tells its sender when time is
// up, and cuts and joins long messages (RMPP) for agents that want it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "softhca/agent/gsi_wire.hpp"
#include "softhca/agent/session.hpp"
#include "softhca/fabric/counters.hpp"
#include "softhca/fabric/fabric_view.hpp"
#include "softhca/mad/rmpp.hpp"

namespace softhca {

/// Not thread-safe.
class Gsi {
 public:
  /// `joined` is called when a subnet administrator has granted a multicast join or leave.
  Gsi(Sessions& sessions, const FabricView& view, Counters& counters, GsiFaults& faults,
      std::function<void()> joined)
      : sessions_(sessions),
        view_(view),
        counters_(counters),
        wire_(view, faults),
        joined_(std::move(joined)) {}

  /// A message a process sent: the address and MAD header and data. Anything malformed is dropped.
  void handle_send(Session& session, const UmadHeader& header, std::vector<std::uint8_t> data,
                   Instant now);

  /// Takes what has arrived, repeats and gives up what is due.
  void handle_time(Instant now);

  /// When handle_time() is wanted next.
  [[nodiscard]] std::optional<Instant> deadline() const;

  /// Drops everything of a session that ends.
  void forget_session(std::uint64_t session);

 private:
  // A request by the transaction id it has on the wire; two may have the same one.
  using RequestKey = std::pair<std::uint64_t, std::uint32_t>;
  struct Request {
    std::uint64_t session = 0;
    UmadHeader header;
    std::vector<std::uint8_t> data;
    PortIndex target = kNoPort;
    std::uint32_t tries_left = 0;
    Instant due{};
    bool sending = false;  // an RMPP transfer that is not acknowledged yet: no timer runs
  };

  // A transfer: session, agent, transaction id, the other port's index.
  using TransferKey = std::tuple<std::uint64_t, std::uint32_t, std::uint64_t, PortIndex>;
  struct Outgoing {
    RmppSender sender;
    UmadHeader header;
    std::optional<RequestKey> request;
  };
  struct Incoming {
    RmppReceiver receiver;
    Instant until{};
    bool delivered = false;
  };

  void post(const Session& session, const UmadHeader& header, std::span<const std::uint8_t> mad,
            Instant now);
  void transmit(const RequestKey& key, Instant now);
  void begin_transfer(Session& session, const UmadHeader& header, std::vector<std::uint8_t> data,
                      std::optional<RequestKey> request, Instant now);
  void advance(const TransferKey& key, Instant now);
  void receive(const GsiPacket& packet, Instant now);
  void receive_segment(const AgentRef& agent, const GsiPacket& packet, Instant now);
  void receive_control(const AgentRef& agent, const GsiPacket& packet, Instant now);
  void deliver(const AgentRef& agent, const GsiPacket& packet,
               std::span<const std::uint8_t> message);
  void reply(const GsiPacket& to, const Mad& mad, Instant now);
  void count(const Session& session, std::span<const std::uint8_t> mad);
  void arm(const RequestKey& key, Request& request, Instant now);
  void give_up(const RequestKey& key);
  void erase(const RequestKey& key);

  Sessions& sessions_;
  const FabricView& view_;
  Counters& counters_;
  GsiWire wire_;
  std::function<void()> joined_;
  std::map<RequestKey, Request> requests_;
  std::set<std::pair<Instant, RequestKey>> timers_;
  std::map<TransferKey, Outgoing> outgoing_;
  std::map<TransferKey, Incoming> incoming_;
  std::uint32_t next_id_ = 0;
};

}  // namespace softhca
