// SPDX-License-Identifier: BSD-3-Clause
// node_lookup GID LOOKUPS: asks the node's resolver for the path to a GID, as a rank does, and then
// looks it up again and again. Prints {"ns": …}: median time of one lookup.
#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "acm/driver/node_client.hpp"
#include "base/clock.hpp"
#include "figures.hpp"
#include "verbs/device.hpp"

namespace {

using namespace wireup;

constexpr int kBatchOfLookups = 1000;
constexpr std::chrono::seconds kLimit{30};

int fail_with(std::string_view what) {
  std::fprintf(stderr, "node_lookup: %s\n", std::string(what).c_str());
  return 1;
}

/// Asks until there is an answer; an empty text when it is a path.
std::string resolve(acm::NodeClient& client, const acm::PathKey& key) {
  const Instant end = monotonic_now() + kLimit;
  if (auto asked = client.request(key, end); !asked) {
    return std::string(asked.error().what());
  }
  while (monotonic_now() < end) {
    client.progress(monotonic_now());
    if (const auto resolution = client.poll_resolution()) {
      return resolution->path ? "" : std::string(resolution->path.error().what());
    }
    pollfd descriptor{client.fd(), POLLIN, 0};
    poll(&descriptor, 1, 10);
  }
  return "no answer of the resolver";
}

}  // namespace

int main(int argc, char** argv) {
  const int lookups = argc == 3 ? std::atoi(argv[2]) : 0;
  Gid::Bytes bytes{};
  if (lookups < kBatchOfLookups || inet_pton(AF_INET6, argv[1], bytes.data()) != 1) {
    std::fprintf(stderr, "usage: node_lookup GID LOOKUPS (at least %d)\n", kBatchOfLookups);
    return 2;
  }
  auto port = verbs::open_port({});
  if (!port) {
    return fail_with(port.error().what());
  }
  // As an unprivileged rank: it asks whoever resolves, and reads what that one stored.
  acm::NodeClientOptions options;
  options.may_resolve = false;
  auto client = acm::NodeClient::open(options, port->info);
  if (!client) {
    return fail_with(client.error().what());
  }
  acm::PathKey key;
  key.sgid = port->info.gid;
  key.dgid = Gid(bytes);
  key.pkey = PKey(0xFFFF);
  if (const std::string problem = resolve(*client, key); !problem.empty()) {
    return fail_with(problem);
  }
  std::vector<double> times;
  for (int done = 0; done < lookups; done += kBatchOfLookups) {
    const auto start = bench::Clock::now();
    for (int i = 0; i < kBatchOfLookups; ++i) {
      if (!client->lookup(key).has_value()) {
        return fail_with("the path is not in the cache");
      }
    }
    times.push_back(bench::microseconds_since(start) * 1000 / kBatchOfLookups);
  }
  std::printf("{\"ns\": %.1f}\n", bench::quantile(times, 0.5));
  return 0;
}
