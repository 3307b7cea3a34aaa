// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "acm/engine/engine.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "umad/sa_client.hpp"
#include "umad/sa_notices.hpp"
#include "verbs/device.hpp"
#include "verbs/port_events.hpp"
#include "verbs/ud_endpoint.hpp"

namespace wireup::acm {

/// The ACM engine on a real port: its queue pair, its joins and path queries at the SA, the SA's
/// notices of ports that leave and come, and a look at the port when the device has news of it and
/// every half second: another LID, GID, P_Key, rate or subnet manager, a port that goes down, and a
/// wish of the subnet manager that clients register again void what was learned. Not thread-safe,
/// never blocks. Not movable: it is held by a unique_ptr.
class AcmPort {
 public:
  struct Options {
    std::string device;
    std::uint8_t port = 1;
    PKey pkey{0xFFFF};
    Config engine;
    std::uint64_t seed = 0;
    /// Names and IP addresses to answer for, besides the port's GID and LIDs.
    std::vector<mad::AcmAddress> locals;
    /// May the SA be asked for paths? Joins need it in any case.
    bool asks_sa_for_paths = true;
  };
  /// Errc::NoDevice, Errc::NoSubnetManager (the port is not ACTIVE), Errc::NoPermission (no
  /// CAP_NET_RAW for the privileged Q_Key, or no access to the MAD device), Errc::MemlockLimit,
  /// Errc::InvalidArgument (the port has no such P_Key).
  [[nodiscard]] static Result<std::unique_ptr<AcmPort>> open(const Options& options, Instant now);

  [[nodiscard]] Result<> resolve(const mad::AcmAddress& address, Instant deadline, Instant now);
  void path_failed(const mad::AcmAddress& address);
  /// The names and IP addresses answered for changed.
  void set_locals(const std::vector<mad::AcmAddress>& locals, Instant now);
  /// Everything learned is void; what is being asked for goes on.
  void forget_learned();

  /// A path query of a user, past everything known: SubnAdmGet with this record and component mask.
  /// One SaAnswer with the id that is returned follows.
  std::uint32_t ask_sa(const mad::PathRecord& record, std::uint64_t component_mask, Instant now);
  struct SaAnswer {
    std::uint32_t id = 0;
    Result<mad::PathRecord> record;
  };
  [[nodiscard]] std::optional<SaAnswer> poll_sa_answer();

  /// The SA's whole table of channel adapters, or of services. One reply with the id that is
  /// returned follows, a table or an error.
  std::uint32_t ask_nodes(Instant now);
  std::uint32_t ask_services(Instant now);
  [[nodiscard]] std::optional<umad::SaReply> poll_table_answer();

  /// Readable when progress() has something to do.
  [[nodiscard]] int fd() const noexcept { return epoll_.value(); }
  void progress(Instant now);
  /// PathLearned, PathUnresolved, PathForgotten or Invalidated.
  [[nodiscard]] std::optional<Event> poll_event();
  [[nodiscard]] std::optional<Instant> poll_timeout() const;

  /// The error for a request that failed.
  [[nodiscard]] Error explain(const PathUnresolved& unresolved) const;
  [[nodiscard]] const verbs::PortInfo& info() const noexcept { return info_; }
  [[nodiscard]] const Engine& engine() const noexcept { return *engine_; }
  /// nullptr where the SA's notices could be had; else why not, for now.
  [[nodiscard]] const Error* notice_fault() const noexcept {
    return notices_.has_value() && notices_->fault().has_value() ? &*notices_->fault() : nullptr;
  }

 private:
  AcmPort() = default;
  [[nodiscard]] Result<> open_endpoint();
  [[nodiscard]] PortIdentity identity() const noexcept;
  void look_at_port(const verbs::PortNews& news, Instant now);
  void receive(Instant now);
  void drain(Instant now);
  void send_waiting();
  void attach_all();
  [[nodiscard]] Result<> watch(int fd);

  // acm_port_sa.cpp
  [[nodiscard]] Error no_source() const;
  [[nodiscard]] umad::MadAddress sm_address() const noexcept;
  [[nodiscard]] Result<> open_sa(Instant now);
  void send_sa_requests(Instant now);
  [[nodiscard]] umad::SaRequestId ask_for(std::uint8_t node_type, Instant now);
  void handle_sa_replies(Instant now);
  void handle_path_reply(const umad::SaReply& reply, std::uint32_t query, Instant now);
  void handle_table_reply(const umad::SaReply& reply, Instant now);
  void handle_notices(Instant now);
  [[nodiscard]] Result<mad::PathRecord> path_of(const umad::SaReply& reply) const;

  Options options_;
  verbs::PortInfo info_;
  // Destroyed from the bottom up: the queue pair before its device.
  std::optional<verbs::Device> device_;
  std::optional<verbs::PortEvents> port_events_;
  UniqueFd epoll_;
  std::optional<verbs::UdEndpoint> endpoint_;
  std::optional<umad::SaClient> sa_;
  std::optional<umad::SaNotices> notices_;
  /// The notices' descriptor is in the epoll set.
  bool hears_notices_ = false;
  std::optional<Engine> engine_;
  PKey table_pkey_;
  /// The P_Key table that the queue pair's index is of.
  std::vector<PKey> bound_pkeys_;
  std::map<umad::SaRequestId, Gid> joins_;
  /// Path queries in flight, by the engine's ids.
  std::map<umad::SaRequestId, std::uint32_t> queries_;
  /// The request for a table in flight: the SA client's id and the engine's.
  struct Table {
    umad::SaRequestId request = 0;
    std::uint32_t query = 0;
  };
  std::optional<Table> table_;
  /// Path queries of users in flight.
  std::set<umad::SaRequestId> user_queries_;
  std::deque<SaAnswer> sa_answers_;
  /// Ids of questions that are not asked: far from those of the SA client.
  std::uint32_t next_refused_ = 0x80000000;
  /// Tables for users in flight.
  std::set<umad::SaRequestId> user_tables_;
  std::deque<umad::SaReply> table_answers_;
  /// Groups that the port is a member of, and what the queue pair is attached to.
  std::map<Gid, Lid> joined_;
  std::map<Gid, Lid> attached_;
  /// Why the last join failed.
  std::optional<Error> join_error_;
  /// Why the last path query failed.
  std::optional<Error> query_error_;
  /// Why the queue pair could not be attached to a group; tried again at each look at the port.
  std::optional<Error> attach_error_;
  /// Why the last datagram could not be sent.
  std::optional<Error> send_error_;
  /// A datagram that found no send buffer.
  std::optional<Transmit> waiting_;
  /// receive() stopped at its bound.
  bool has_more_ = false;
  Instant retry_send_;
  Instant next_look_;
  std::deque<Event> events_;
};

}  // namespace wireup::acm
