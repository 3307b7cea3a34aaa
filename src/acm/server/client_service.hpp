// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "acm/driver/port_resolver.hpp"
#include "acm/driver/user_shares.hpp"
#include "acm/server/client_message.hpp"
#include "acm/server/routed_paths.hpp"
#include "acm/server/served_port.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// The local address that this node would use towards an IPv4 or IPv6 address; nothing when it has
/// no route there. It asks the kernel (a UDP socket is connected, nothing is sent).
[[nodiscard]] std::optional<mad::AcmAddress> route_source(const mad::AcmAddress& destination);

/// Answers the requests of ibacm's clients from the node's ports. An endpoint of the protocol is a
/// served port and partition, numbered from 1. Not thread-safe; never blocks.
///
/// Addresses are resolved by ACM. Paths that are asked for by GID or LID come from what is known,
/// else from the SA, since their destination need not run an ACM.
class ClientService {
 public:
  using ClientId = std::uint64_t;
  struct Options {
    /// How long an address is asked for.
    Duration patience = std::chrono::seconds(8);
    std::function<std::optional<mad::AcmAddress>(const mad::AcmAddress&)> source_of = route_source;
    /// Who knows other subnets' parts of paths; nullptr: nobody. It must outlive the service, and
    /// its owner calls its progress().
    RoutedPaths* routed = nullptr;
    /// How long it is asked for. The kernel waits two seconds for all of its answer.
    Duration routed_patience = std::chrono::seconds(1);
  };
  struct Reply {
    ClientId client = 0;
    ClientReply reply;
  };

  /// `ports` must outlive the service.
  ClientService(const Options& options, const std::vector<ServedPort*>& ports);

  /// One Reply follows, at once or later, whether the client is still there or not. `user`: whose
  /// client it is.
  void handle(ClientId client, uid_t user, const ClientRequest& request, Instant now);
  /// Takes the answers of the ports.
  void progress(Instant now);
  [[nodiscard]] std::optional<Reply> poll_reply();

  using Counters = std::array<std::uint64_t, kClientCounters>;
  /// Of endpoint `number` (from 1), or of all for 0.
  [[nodiscard]] Counters counters(std::size_t number) const noexcept;

 private:
  struct Endpoint {
    ServedPort* port = nullptr;
    Counters counters{};
  };
  struct Waiting {
    ClientId client = 0;
    ClientRequest request;
    std::size_t endpoint = 0;
    /// The address that was chosen for the client.
    std::optional<mad::AcmAddress> source;
  };
  /// The own SA's path is there; the other subnet's part is being asked for.
  struct HalfAnswered {
    Waiting waiting;
    mad::PathRecord path;
  };
  /// A question that goes on without anybody waiting for its answer.
  struct Unawaited {
    uid_t user = 0;
    std::size_t endpoint = 0;
  };

  void handle_address(ClientId client, uid_t user, const ClientRequest& request,
                      const AddressQuestion& question, Instant now);
  void handle_path(ClientId client, const ClientRequest& request, const PathQuestion& question,
                   Instant now);
  void handle_perf(ClientId client, const ClientRequest& request, const PerfQuery& query);
  void handle_endpoint(ClientId client, const ClientRequest& request, const EndpointQuery& query);
  void end_unawaited(PortResolver::AskId id);
  void answer(const Waiting& waiting, const Result<ResolvedPath>& path, Instant now);
  void answer_with(const Waiting& waiting, std::vector<ClientPath> paths);
  void take_routed_answers();
  void refuse(ClientId client, const ClientRequest& request, ClientStatus status);
  void count(std::size_t endpoint, ClientCounter counter) noexcept;
  [[nodiscard]] std::optional<std::size_t> endpoint_of(const mad::AcmAddress& address) const;
  [[nodiscard]] std::optional<std::size_t> endpoint_for(const mad::PathRecord& path) const;
  [[nodiscard]] std::optional<std::size_t> first_served() const;
  [[nodiscard]] std::optional<std::size_t> choose(const AddressQuestion& question,
                                                  std::optional<mad::AcmAddress>& chosen) const;

  Options options_;
  std::vector<Endpoint> endpoints_;
  /// Refused before an endpoint was chosen.
  Counters nowhere_{};
  PortResolver::AskId next_ask_ = 1;
  std::map<PortResolver::AskId, Waiting> waiting_;
  std::map<RoutedPaths::AskId, HalfAnswered> half_answered_;
  std::map<PortResolver::AskId, Unawaited> unawaited_;
  UserShares unawaited_shares_;
  std::deque<Reply> replies_;
};

}  // namespace wireup::acm
