// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "acm/driver/ibacm_client.hpp"
#include "acm/engine/path.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"
#include "verbs/port_info.hpp"

namespace wireup::acm {

/// The paths of a port as the node's ibacm (or `wireup serve` in its place) tells them. For a
/// process that may not ask the fabric itself.
///
/// GIDs and LIDs are asked for as path records, so that their ports need not run any ACM. For names
/// and IP addresses ibacm wants one of its own addresses as the source, so it is first asked what
/// it has for this port. Every record is compared with the port and the question before it is
/// believed. Not thread-safe; never blocks.
class IbacmSource {
 public:
  /// `pkey` as it stands in the port's table.
  [[nodiscard]] static Result<IbacmSource> open(const IbacmClient::Options& options,
                                                const verbs::PortInfo& port, PKey pkey);

  using QuestionId = std::uint64_t;
  /// One Answer with `id` follows, at `deadline` at the latest. A key of another port is a defect.
  /// An SL or service of the key is a demand, for which the SA is asked past what ibacm knows.
  void ask(QuestionId id, const PathKey& key, Instant deadline, Instant now);
  void ask(QuestionId id, const mad::AcmAddress& address, Instant deadline, Instant now);

  /// A path did not work: from now on the SA is asked for it, past what ibacm knows, which never
  /// forgets a path by itself.
  void path_failed(const Gid& dgid);

  /// Errors: of IbacmClient; Errc::PathUnresolved (it knows of no path, or what it said cannot be
  /// one); Errc::NoResources.
  struct Answer {
    QuestionId id = 0;
    Result<mad::PathRecord> path;
  };
  [[nodiscard]] std::optional<Answer> poll_answer();

  [[nodiscard]] int fd() const noexcept { return client_.fd(); }
  void progress(Instant now);
  [[nodiscard]] std::optional<Instant> poll_timeout() const;

  /// The port has other addresses now: answers that are on their way are compared with these.
  void set_port(const verbs::PortInfo& port, PKey pkey);
  [[nodiscard]] const verbs::PortInfo& port() const noexcept { return port_; }
  [[nodiscard]] PKey pkey() const noexcept { return pkey_; }
  [[nodiscard]] const std::string& socket() const noexcept { return client_.socket(); }

 private:
  struct Question {
    QuestionId id = 0;
    mad::AcmAddress destination;
    std::optional<Sl> sl;
    Instant deadline;
  };

  IbacmSource(IbacmClient client, const verbs::PortInfo& port, PKey pkey) noexcept;
  void put(const Question& question, const ClientRequest::Body& body, Instant now);
  void ask_address(const Question& question, Instant now);
  void ask_endpoint(Instant deadline, Instant now);
  void handle_endpoint(const Result<ClientReply>& reply, Instant now);
  void end_endpoints(const Result<>& found, Instant now);
  [[nodiscard]] const mad::AcmAddress* source_for(mad::AcmAddressType type) const noexcept;
  [[nodiscard]] Result<mad::PathRecord> path_of(const Question& question,
                                                const Result<ClientReply>& reply) const;

  IbacmClient client_;
  verbs::PortInfo port_;
  PKey pkey_;
  std::uint64_t next_tid_ = 1;
  std::map<Tid, Question> questions_;
  std::deque<Answer> answers_;
  std::set<Gid> failed_;

  /// What ibacm calls this port; empty before it was asked.
  std::vector<mad::AcmAddress> sources_;
  /// Its endpoints are being asked for, one after the other.
  struct Endpoints {
    Tid tid;
    std::uint8_t index;
    Instant deadline;
  };
  std::optional<Endpoints> endpoints_;
  /// Names and IP addresses that wait for a source.
  std::vector<Question> sourceless_;
};

}  // namespace wireup::acm
