// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/ask_resolver.hpp"

#include <poll.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "acm/client/cache_view.hpp"
#include "acm/driver/node_client.hpp"
#include "base/clock.hpp"

namespace wireup::acm {
namespace {

/// The entry that leads to this LID. The cache is true while its resolver lives.
std::optional<ResolvedPath> find_lid(const std::vector<CacheView>& caches, Lid lid) {
  for (const CacheView& cache : caches) {
    for (const CachedPath& entry : cache.entries) {
      if (entry.path.record.dlid == lid) {
        return entry.path;
      }
    }
  }
  return std::nullopt;
}

/// The caches of this port and partition.
std::vector<CacheView> view_caches(const NodePlaces& places, const verbs::PortInfo& port,
                                   PKey pkey) {
  std::vector<CacheView> views;
  for (const CacheFile& file : find_caches(places)) {
    if (file.port_guid != port.port_guid || file.partition != pkey.partition()) {
      continue;
    }
    if (auto view = view_cache(file, monotonic_now())) {
      views.push_back(std::move(*view));
    }
  }
  return views;
}

void wait(NodeClient& client, Instant deadline) {
  const Instant until = std::min(deadline, client.poll_timeout().value_or(deadline));
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - monotonic_now()).count();
  constexpr std::int64_t kLongest = 1000;
  pollfd descriptor{client.fd(), POLLIN, 0};
  poll(&descriptor, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest)));
}

}  // namespace

std::vector<Result<ResolvedPath>> ask_resolver(const NodePlaces& places,
                                               const verbs::PortInfo& port, PKey pkey,
                                               std::span<const mad::AcmAddress> destinations,
                                               Instant deadline) {
  std::vector<Result<ResolvedPath>> answers(destinations.size(), fail(Errc::PathUnresolved));
  NodeClientOptions options;
  options.pkey = pkey;
  options.directory = places.directory;
  options.cache_directory = places.cache_directory;
  options.public_directory = places.public_directory;
  options.may_resolve = false;
  auto client = NodeClient::open(options, port);
  if (!client) {
    std::fill(answers.begin(), answers.end(), Result<ResolvedPath>(fail(client.error())));
    return answers;
  }
  const std::vector<CacheView> caches = view_caches(places, port, pkey);
  // A GID is asked for as a key, everything else as an address.
  std::map<std::pair<Gid, std::optional<mad::AcmAddress>>, std::vector<std::size_t>> asked;
  for (std::size_t i = 0; i < destinations.size(); ++i) {
    const mad::AcmAddress& destination = destinations[i];
    const auto lid = destination.as_lid();
    if (const auto known = lid.has_value() ? find_lid(caches, *lid) : std::nullopt) {
      answers[i] = *known;
      continue;
    }
    PathKey key;
    key.sgid = port.gid;
    key.pkey = pkey;
    const auto gid = destination.as_gid();
    key.dgid = gid.value_or(Gid());
    const auto started = gid.has_value() ? client->request(key, deadline)
                                         : client->request(destination, key, deadline);
    if (!started) {
      answers[i] = fail(started.error());
      continue;
    }
    asked[{key.dgid, gid.has_value() ? std::nullopt : std::optional(destination)}].push_back(i);
  }
  // Each request ends at its deadline, so this does too.
  while (!asked.empty()) {
    client->progress(monotonic_now());
    bool is_new = false;
    while (const auto resolution = client->poll_resolution()) {
      is_new = true;
      const auto at = asked.find({resolution->key.dgid, resolution->address});
      if (at == asked.end()) {
        continue;
      }
      for (const std::size_t i : at->second) {
        answers[i] = resolution->path;
      }
      asked.erase(at);
    }
    if (!is_new && !asked.empty()) {
      wait(*client, deadline);
    }
  }
  return answers;
}

}  // namespace wireup::acm
