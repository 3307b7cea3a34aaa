// SPDX-License-Identifier: BSD-3-Clause
// One port that some process opened through umad: its sockets and its registered agents.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "softhca/fabric/fabric_view.hpp"
#include "softhca/mad/mad.hpp"
#include "softhca/umad/agent_protocol.hpp"
#include "softhca/umad/umad_socket.hpp"

namespace softhca {

/// A registered agent, as in the kernel: which unsolicited MADs it wants.
struct Registration {
  bool used = false;
  std::uint8_t mgmt_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t rmpp_version = 0;
  bool user_rmpp = false;
  std::uint32_t oui = 0;
  std::uint32_t tid_high = 0;  // upper half of its transaction ids; no other agent has it
  std::array<std::uint64_t, 2> method_mask{};

  /// The agent's messages are cut and put together here, not by the process.
  [[nodiscard]] bool kernel_rmpp() const { return rmpp_version != 0 && !user_rmpp; }
  [[nodiscard]] bool wants(std::uint8_t method) const {
    return method < 128 && (method_mask[method / 64] >> (method % 64) & 1U) != 0;
  }
};

class Session {
 public:
  /// Takes over `control`, a connected SOCK_SEQPACKET socket.
  Session(std::uint64_t id, int control) : id_(id), control_(control) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] int control() const { return control_; }
  [[nodiscard]] int data() const { return data_; }  // -1 until opened
  [[nodiscard]] PortIndex port() const { return port_; }

  /// Becomes an opened port; takes over `data`.
  void open(PortIndex port, int data);

  /// The agents by id. Ids are slots, reused after unregistering, as in the kernel.
  std::array<Registration, kMaxAgentsPerPort>& agents() { return agents_; }
  [[nodiscard]] const std::array<Registration, kMaxAgentsPerPort>& agents() const {
    return agents_;
  }

  /// Hands a message, at most kMaxUmadData bytes, to the process. Never blocks: what its socket
  /// does not take waits here, and the oldest is lost when too much waits.
  void deliver(const UmadHeader& header, std::span<const std::uint8_t> data);

  /// Sends what waits; call when the data socket is writable.
  void flush();

  /// True while something waits, that is, while flush() is wanted.
  [[nodiscard]] bool congested() const { return !backlog_.empty(); }
  /// Whether the server waits for the data socket to take more.
  [[nodiscard]] bool watched_for_room() const { return watched_for_room_; }
  void set_watched_for_room(bool watched) { watched_for_room_ = watched; }

 private:
  std::uint64_t id_;
  int control_;
  int data_ = -1;
  PortIndex port_ = kNoPort;
  bool watched_for_room_ = false;
  std::array<Registration, kMaxAgentsPerPort> agents_{};
  std::deque<UmadMessage> backlog_;
};

using Sessions = std::map<std::uint64_t, std::unique_ptr<Session>>;

/// Registers an agent in `session`. Error as an errno value: EINVAL a class or version that does
/// not exist, or a method that another agent of the port has registered already; ENOMEM no slot.
int register_agent(const Sessions& sessions, Session& session, const AgentRequest& request,
                   std::uint32_t& agent_id);

/// The agent of `port` whose transaction ids have this upper half: a response is for it.
struct AgentRef {
  Session* session = nullptr;
  std::uint32_t agent_id = 0;
  [[nodiscard]] const Registration& registration() const { return session->agents()[agent_id]; }
};
std::optional<AgentRef> find_agent_of_tid(const Sessions& sessions, PortIndex port,
                                          std::uint64_t tid);

/// The agent that an unsolicited MAD arriving at `port` is for.
std::optional<AgentRef> find_agent(const Sessions& sessions, PortIndex port,
                                   const MadHeader& header, std::span<const std::uint8_t> mad);

}  // namespace softhca
