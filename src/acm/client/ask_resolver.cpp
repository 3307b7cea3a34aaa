// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/ask_resolver.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "acm/client/cache_view.hpp"
#include "acm/client/wait.hpp"
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

void wait(const NodeClient& client, Instant deadline) {
  constexpr Duration kLongest = std::chrono::seconds(1);
  const Instant until = std::min(deadline, client.poll_timeout().value_or(deadline));
  wait_readable(client.fd(), std::min(until, monotonic_now() + kLongest));
}

bool is_lid(const mad::AcmAddress& address) noexcept {
  return address.as_lid().has_value();
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
  // All entries are read for that: only where somebody asks for a LID.
  const bool asks_for_lid = std::any_of(destinations.begin(), destinations.end(), is_lid);
  const auto caches = asks_for_lid ? view_caches(places, port, pkey) : std::vector<CacheView>();
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
