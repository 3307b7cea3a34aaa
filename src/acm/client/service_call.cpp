// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/service_call.hpp"

#include <utility>

#include "acm/client/wait.hpp"
#include "acm/driver/ibacm_client.hpp"
#include "base/clock.hpp"

namespace wireup::acm {

Result<ClientReply> call_service(const std::string& path, const ClientRequest& request,
                                 Instant deadline) {
  IbacmClient::Options options;
  options.socket = path;
  options.connections = 1;
  options.tries = 1;
  // Who names a socket of its own means the service there, whoever runs it.
  options.check_owner = false;
  auto client = IbacmClient::open(options);
  if (!client) {
    return fail(client.error());
  }
  client->ask(request, deadline, monotonic_now());
  while (true) {
    if (auto answer = client->poll_answer()) {
      return std::move(answer->reply);
    }
    wait_readable(client->fd(), client->poll_timeout().value_or(deadline));
    client->progress(monotonic_now());
  }
}

}  // namespace wireup::acm
