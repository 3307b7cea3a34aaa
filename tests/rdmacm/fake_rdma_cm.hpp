// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "rdmacm/ops.hpp"

namespace wireup::test {

/// A call of librdmacm with all its arguments; those that a call does not have are empty.
struct KernelCall {
  std::string name;
  const rdma_cm_id* id = nullptr;
  rdma_port_space space{};
  /// Socket addresses; of bind_addr the source.
  std::vector<std::uint8_t> source;
  std::vector<std::uint8_t> destination;
  int level = 0;
  int option_name = 0;
  std::vector<std::uint8_t> option;
  /// Timeout in ms, backlog, or what was notified.
  int number = 0;
  rdma_conn_param values{};
  std::vector<std::uint8_t> private_data;
};

/// librdmacm over a kernel of its own, in memory: the calls are recorded, and connections are made
/// between its channels as ib_cm and rdma_cm do it:
///
///   channel of host A ── calls ──► ids, their states ── wire (can be held) ──► events of channel B
///
/// What it holds itself to of the real one: an event that is not given back keeps its id; a REQ or
/// REP for a queue pair that is in another connection is stale; private data come padded, on IP ids
/// 56 bytes of a REQ; responder resources and initiator depth change places; a destroyed id tells
/// its peer. One at a time.
class FakeRdmaCm {
 public:
  FakeRdmaCm();
  ~FakeRdmaCm();
  FakeRdmaCm(const FakeRdmaCm&) = delete;
  FakeRdmaCm& operator=(const FakeRdmaCm&) = delete;

  enum class State {
    Fresh,
    AddressResolved,
    RouteResolved,
    Listening,
    ReqSent,
    ReqReceived,
    RepSent,
    RepReceived,
    Connected,
    DreqSent,
    DreqReceived,
    Over,
  };
  struct Id : rdma_cm_id {
    Id() : rdma_cm_id{} {}
    State state = State::Fresh;
    Id* peer = nullptr;
    std::uint32_t qpn = 0;
    std::uint32_t remote_qpn = 0;
    ibv_sa_path_rec path{};
  };
  struct Event : rdma_cm_event {
    Event() : rdma_cm_event{} {}
    std::vector<std::uint8_t> data;
  };

  [[nodiscard]] static const rdmacm::Ops& ops();

  std::vector<KernelCall> calls;
  /// The names of `calls` without the event calls, in order.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] const KernelCall& last(const std::string& name) const;

  /// The next call of this name fails, once.
  std::string failing;
  int error = 0;

  /// Without it calls are only recorded and a test makes the events.
  bool is_simulated = true;
  /// Hosts that do not answer, by GID.
  std::set<Gid> unreachable;
  /// Ports in use, by which bind_addr fails.
  std::set<std::uint16_t> taken_ports;
  /// Messages stay on the wire until deliver().
  bool is_held = false;
  void deliver();

  /// An event of an id, as the test says.
  void push(rdma_cm_event_type type, rdma_cm_id* id, int status = 0,
            const rdma_conn_param& values = {}, const std::vector<std::uint8_t>& data = {},
            rdma_cm_id* listener = nullptr);
  /// An id as CONNECT_REQUEST brings one, on the listener's channel.
  Id* make_id(rdma_event_channel* channel);
  /// The only id of a channel that is not listening; the test fails when there are others.
  [[nodiscard]] Id* only_id() const;

  [[nodiscard]] std::size_t ids() const { return ids_.size(); }
  [[nodiscard]] std::size_t channels() const { return channels_.size(); }
  /// Events that were not given back.
  [[nodiscard]] std::size_t unacknowledged() const { return out_.size(); }

 private:
  friend struct FakeCalls;
  struct Channel {
    rdma_event_channel channel{};
    std::deque<std::unique_ptr<Event>> events;
  };

  void bury(rdma_cm_id* id);
  bool fails(KernelCall call);
  void post(std::function<void()> action);
  void connect(Id* id, const rdma_conn_param& values, const std::vector<std::uint8_t>& data);
  void accept(Id* id, const rdma_conn_param& values, const std::vector<std::uint8_t>& data);
  /// False: not in this state.
  bool refuse(Id* id, int reason, const std::vector<std::uint8_t>& data);
  int disconnect(Id* id);
  void leave(Id* id);
  void rest(Id* id);
  /// Is the peer's queue pair in another connection of this end's host?
  [[nodiscard]] bool is_stale(const Id* id, std::uint32_t remote_qpn) const;
  [[nodiscard]] Id* listener_of(const Id* id) const;
  [[nodiscard]] Id* alive(Id* id) const { return ids_.contains(id) ? id : nullptr; }

  std::map<rdma_event_channel*, std::unique_ptr<Channel>> channels_;
  std::map<rdma_cm_id*, std::unique_ptr<Id>> ids_;
  /// Ids that are gone, so that none gets the address of another that the wire still names.
  std::vector<std::unique_ptr<Id>> buried_;
  std::map<rdma_cm_event*, std::unique_ptr<Event>> out_;
  std::deque<std::function<void()>> wire_;
  std::uint16_t next_port_ = 50000;
};

}  // namespace wireup::test
