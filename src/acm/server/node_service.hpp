// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acm/server/client_server.hpp"
#include "acm/server/client_service.hpp"
#include "acm/server/ipoib_watch.hpp"
#include "acm/server/kernel_service.hpp"
#include "acm/server/routed_paths.hpp"
#include "acm/server/served_port.hpp"
#include "base/error.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

/// The node's ACM service: its ports on the fabric, the ranks of its jobs, and ibacm's clients, on
/// one thread. Not thread-safe; nothing blocks but wait().
class NodeService {
 public:
  /// A change that an administrator wants to read of: a port that is served now, or is not and why.
  struct PortNews {
    std::string device;
    std::uint8_t port = 0;
    /// Nothing: it is served.
    std::optional<Error> fault;
    /// What of the preloaded files could not be used.
    std::vector<Error> problems;
    /// A port that runs no ACM was found; the rest says nothing then.
    std::optional<PortResolver::Identified> identified = {};
  };

  /// Has no port yet, and tells every client so. With `kernel` the kernel's path requests are
  /// answered too. `routed`: who knows other subnets' parts of paths; it must outlive this.
  NodeService(ClientServer clients, std::optional<KernelService> kernel,
              RoutedPaths* routed = nullptr);
  /// The ports that it serves. Once.
  [[nodiscard]] Result<> add_ports(const std::vector<ServedPort::Options>& ports);
  /// Ports are also asked for by the IP addresses of their IPoIB interfaces. Once.
  void watch_interfaces(IpoibWatch watch) { interfaces_.emplace(std::move(watch)); }

  /// Does what there is to do.
  void progress(Instant now);
  /// Sleeps until there is something to do, or `also` (a descriptor, or -1) is readable, or
  /// `until`.
  void wait(int also, Instant until, Instant now);
  [[nodiscard]] std::optional<PortNews> poll_news();
  [[nodiscard]] std::size_t ports() const noexcept { return ports_.size(); }
  /// Each of them can be asked now, and there is one at least.
  [[nodiscard]] bool serves_all() const;

 private:
  struct Watched {
    std::unique_ptr<ServedPort> port;
    /// What was last told of it.
    std::optional<std::string> told;
    /// What its interfaces' addresses were last taken from.
    std::uint64_t interfaces_version = 0;
    Gid gid;
  };

  /// False: there was none.
  bool take_requests(Instant now);
  void send_replies();
  void note_changes();
  void follow_interfaces(Instant now);
  void serve_clients(const std::vector<ServedPort*>& ports);

  std::vector<Watched> ports_;
  ClientServer clients_;
  std::optional<KernelService> kernel_;
  RoutedPaths* routed_ = nullptr;
  std::optional<IpoibWatch> interfaces_;
  std::optional<ClientService> service_;
  std::deque<PortNews> news_;
  /// progress() stopped at its bound.
  bool has_more_ = false;
};

}  // namespace wireup::acm
