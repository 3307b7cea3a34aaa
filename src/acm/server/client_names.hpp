// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "acm/server/client_listener.hpp"
#include "base/error.hpp"

namespace wireup::acm {

/// Where librdmacm looks for its service: first for a TCP port in a file, then at a link.
struct ClientNames {
  std::string port_file = "/run/ibacm.port";
  std::string link = kClientSocketLink;
};

/// What leads librdmacm's clients away from the service that listens at `socket`, each with what to
/// do: a file with a TCP port, as an ibacm in one of its TCP modes leaves it, or a link to another
/// socket.
[[nodiscard]] std::vector<Error> names_that_mislead(const std::string& socket,
                                                    const ClientNames& names = {});

}  // namespace wireup::acm
