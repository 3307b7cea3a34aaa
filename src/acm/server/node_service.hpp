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
#include "acm/server/kernel_service.hpp"
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

  /// `ports` may be empty: then every client is told that there is none.
  /// With `kernel` the kernel's path requests are answered too.
  [[nodiscard]] static Result<std::unique_ptr<NodeService>> open(
      const std::vector<ServedPort::Options>& ports, ClientServer clients,
      std::optional<KernelService> kernel);

  /// Does what there is to do.
  void progress(Instant now);
  /// Sleeps until there is something to do, or `also` (a descriptor, or -1) is readable, or
  /// `until`.
  void wait(int also, Instant until, Instant now);
  [[nodiscard]] std::optional<PortNews> poll_news();
  [[nodiscard]] std::size_t ports() const noexcept { return ports_.size(); }

 private:
  struct Watched {
    std::unique_ptr<ServedPort> port;
    /// What was last told of it.
    std::optional<std::string> told;
  };

  NodeService(ClientServer clients, std::optional<KernelService> kernel) noexcept
      : clients_(std::move(clients)), kernel_(std::move(kernel)) {}
  /// False: there was none.
  bool take_requests(Instant now);
  void send_replies();
  void note_changes();

  std::vector<Watched> ports_;
  ClientServer clients_;
  std::optional<KernelService> kernel_;
  std::optional<ClientService> service_;
  std::deque<PortNews> news_;
  /// progress() stopped at its bound.
  bool has_more_ = false;
};

}  // namespace wireup::acm
