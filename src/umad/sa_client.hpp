// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/sa.hpp"
#include "mad/sa_table.hpp"
#include "umad/port.hpp"

namespace wireup::umad {

/// Tells the requests of one SaClient apart.
using SaRequestId = std::uint32_t;

/// What a request gives: of a join or a path query one record, else a table of them.
using SaRecord = std::variant<mad::McMemberRecord, mad::PathRecord, std::vector<mad::PathRecord>,
                              std::vector<mad::NodeRecord>, std::vector<mad::ServiceRecord>>;

/// The end of a request. Errors: Errc::Timeout (no answer to any try: no subnet manager there?),
/// Errc::Busy (that was the answer to the last try), Errc::Rejected (a status word other than 0),
/// Errc::Malformed (an answer that is none), Errc::NoResources (a table longer than
/// SaClient::Options::largest_table), Errc::NoDevice (it could not be sent). They name device,
/// port, SM LID and status word.
struct SaReply {
  SaRequestId id = 0;
  Result<SaRecord> record;
};

/// Asks the subnet administration of a port: requests go out at once, answers come by poll_reply(),
/// many may be in flight. A request that is not answered, or answered "busy", is sent again with
/// growing waits. Not thread-safe; never blocks.
class SaClient {
 public:
  struct Options {
    std::string device;
    std::uint8_t port = 1;
    MadAddress sm;
    /// Wait of the first try; each next one is twice as long.
    Duration timeout = std::chrono::milliseconds(500);
    unsigned tries = 4;
    Duration table_timeout = std::chrono::seconds(4);
    /// Bytes.
    std::size_t largest_table = std::size_t{16} * 1024 * 1024;
  };
  /// Errors as of Port::open().
  [[nodiscard]] static Result<SaClient> open(const Options& options, const Ops& ops = system_ops());

  /// The SM moved; requests in flight keep going to the old one and will time out there.
  void set_sm(const MadAddress& sm) noexcept { options_.sm = sm; }

  /// Joins a multicast group: SubnAdmSet of a member record. A membership is the port's, shared by
  /// all its programs and not counted: there is deliberately no call to leave.
  SaRequestId join(const mad::McMemberRecord& record, std::uint64_t component_mask, Instant now);
  /// SubnAdmGet of one path record. `tries` 0: Options::tries. Who repeats its question itself has
  /// it sent once, or the tries of both are multiplied.
  SaRequestId query_path(const mad::PathRecord& record, std::uint64_t component_mask, Instant now,
                         unsigned tries = 0);
  /// SubnAdmGetTable, sent once and waited for Options::table_timeout.
  SaRequestId query_paths(const mad::PathRecord& record, std::uint64_t component_mask, Instant now);
  SaRequestId query_nodes(const mad::NodeRecord& record, std::uint64_t component_mask, Instant now);
  SaRequestId query_services(const mad::ServiceRecord& record, std::uint64_t component_mask,
                             Instant now);

  [[nodiscard]] int fd() const noexcept { return port_.fd(); }
  /// Takes what came in and sends again what is due.
  void progress(Instant now);
  [[nodiscard]] std::optional<SaReply> poll_reply();
  [[nodiscard]] std::optional<Instant> poll_timeout() const;
  [[nodiscard]] std::size_t pending() const noexcept { return requests_.size(); }

 private:
  struct Request {
    mad::SaMad sa;
    unsigned tries = 0;
    unsigned most_tries = 0;
    /// The answer to the last try was that the SA is busy.
    bool is_busy = false;
    Duration timeout{};
    Instant started;
    /// Waiting for the kernel's answer: when to stop believing in it. Else: when to send again.
    Instant due;
    bool is_sent = false;
  };
  using Requests = std::map<SaRequestId, Request>;

  SaClient(const Options& options, Port port) noexcept;
  SaRequestId start(mad::SaMad sa, unsigned tries, Duration timeout, Instant now);
  SaRequestId start_table(const mad::SaMad& sa, Instant now);
  void send(Requests::iterator at, Instant now);
  void handle(const ReceivedMad& received, Instant now);
  void handle_answer(Requests::iterator at, std::span<const std::uint8_t> bytes, Instant now);
  void again(Requests::iterator at, Instant at_time, Instant now);
  void finish(Requests::iterator at, Result<SaRecord> record);

  Options options_;
  Port port_;
  SaRequestId next_id_ = 1;
  Requests requests_;
  std::deque<SaReply> replies_;
};

}  // namespace wireup::umad
