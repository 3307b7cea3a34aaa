// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acm/server/client_message.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// What the node's ACM service says of itself to its clients.
struct ServiceView {
  /// Its endpoints, in its order: one for each port and partition that it serves.
  std::vector<EndpointReply> endpoints;

  /// "wireup serve", "ibacm", the endpoints' provider where it is another, or "a service" when it
  /// has no endpoint.
  [[nodiscard]] std::string name() const;
};

/// Asks the service at `path` for its endpoints; at most kMaxEndpoints. Errors as call_service().
inline constexpr std::size_t kMaxEndpoints = 255;
[[nodiscard]] Result<ServiceView> view_service(const std::string& path, Instant deadline);

/// Whether the service answers for an endpoint: asks it, by one of the endpoint's own addresses,
/// for the path to itself. Nothing when that cannot be asked (no address). The status says why not:
/// NoData while ibacm has not joined its group, NotConnected or NoData while we have no port.
[[nodiscard]] Result<std::optional<ClientStatus>> try_endpoint(const std::string& path,
                                                               const EndpointReply& endpoint,
                                                               Instant deadline);

/// The endpoint's first name, else its first address of another kind.
[[nodiscard]] std::optional<mad::AcmAddress> address_of(const EndpointReply& endpoint);

}  // namespace wireup::acm
