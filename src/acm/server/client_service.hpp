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
#include "acm/server/client_message.hpp"
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
  };
  struct Reply {
    ClientId client = 0;
    ClientReply reply;
  };

  /// `ports` must outlive the service.
  ClientService(const Options& options, const std::vector<ServedPort*>& ports);

  /// One Reply follows, at once or later.
  void handle(ClientId client, const ClientRequest& request, Instant now);
  /// Takes the answers of the ports.
  void progress();
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

  void handle_address(ClientId client, const ClientRequest& request,
                      const AddressQuestion& question, Instant now);
  void handle_path(ClientId client, const ClientRequest& request, const PathQuestion& question,
                   Instant now);
  void handle_perf(ClientId client, const ClientRequest& request, const PerfQuery& query);
  void handle_endpoint(ClientId client, const ClientRequest& request, const EndpointQuery& query);
  void answer(const Waiting& waiting, const Result<ResolvedPath>& path);
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
  std::deque<Reply> replies_;
};

}  // namespace wireup::acm
