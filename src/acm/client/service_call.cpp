// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/service_call.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

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
    constexpr std::int64_t kLongest = 60'000;
    const Instant now = monotonic_now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
                          client->poll_timeout().value_or(deadline) - now)
                          .count();
    pollfd descriptor{client->fd(), POLLIN, 0};
    // What woke us is found by the next turn.
    static_cast<void>(
        poll(&descriptor, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest))));
    client->progress(monotonic_now());
  }
}

}  // namespace wireup::acm
