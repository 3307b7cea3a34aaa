// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "acm/server/client_message.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// Asks the node's service one thing over its clients' socket, and waits for the answer. A new
/// connection each time, so that a restarted service is found. Errc::NotFound: nobody listens
/// there. Errc::Timeout: no answer until `deadline`. Errc::PeerGone: it hung up. Errc::Malformed:
/// it answered something else. The status of the reply is the caller's to look at.
[[nodiscard]] Result<ClientReply> call_service(const std::string& path,
                                               const ClientRequest& request, Instant deadline);

}  // namespace wireup::acm
