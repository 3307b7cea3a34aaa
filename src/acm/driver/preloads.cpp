// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/preloads.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "acm/files/hosts.hpp"
#include "base/text_file.hpp"

namespace wireup::acm {
namespace {

/// Stores the paths to one port, ascending by DLID as CacheWriter numbers them.
void store_ways(CacheWriter& cache, const PathKey& plain, std::span<const DumpedPath> paths,
                Instant now) {
  PathKey key = plain;
  key.dgid = paths.front().outbound.dgid;
  std::vector<mad::PathRecord> outbound;
  outbound.reserve(paths.size());
  for (const DumpedPath& path : paths) {
    outbound.push_back(path.outbound);
  }
  cache.store_paths(key, outbound, PathOrigin::Preloaded, now);
  key.direction = PathDirection::Inbound;
  for (const DumpedPath& path :
       paths.first(std::min<std::size_t>(paths.size(), kMaxPathsPerPeer))) {
    if (path.inbound.has_value() && *path.inbound != mad::reversed(path.outbound)) {
      cache.store(key, *path.inbound, PathOrigin::Preloaded, now);
    }
    ++key.number;
  }
}

}  // namespace

Preloads Preloads::read(const PreloadFiles& files, const DumpedPort& own) {
  Preloads preloads;
  if (!files.routes.empty()) {
    preloads.read_routes(files.routes, own);
  }
  if (!files.hosts.empty()) {
    preloads.read_hosts(files.hosts);
  }
  return preloads;
}

void Preloads::read_routes(const std::string& file, const DumpedPort& own) {
  const auto text = read_text_file(file);
  if (!text) {
    problems_.push_back(text.error());
    return;
  }
  auto parsed = parse_path_dump(*text, file, own);
  problems_.insert(problems_.end(), parsed.problems.first.begin(), parsed.problems.first.end());
  paths_ = std::move(parsed.value.paths);
  std::erase_if(paths_, [&](const DumpedPath& path) { return path.outbound.dgid == own.gid; });
  std::stable_sort(paths_.begin(), paths_.end(), [](const DumpedPath& a, const DumpedPath& b) {
    return a.outbound.dgid < b.outbound.dgid;
  });
  has_paths_ = !paths_.empty();
}

void Preloads::read_hosts(const std::string& file) {
  const auto text = read_text_file(file);
  if (!text) {
    problems_.push_back(text.error());
    return;
  }
  const auto parsed = parse_hosts(*text, file);
  problems_.insert(problems_.end(), parsed.problems.first.begin(), parsed.problems.first.end());
  for (const HostEntry& entry : parsed.value) {
    hosts_.insert_or_assign(entry.address, entry.gid);
  }
}

std::optional<Gid> Preloads::gid(const mad::AcmAddress& address) const {
  const auto at = hosts_.find(address);
  return at == hosts_.end() ? std::nullopt : std::optional(at->second);
}

void Preloads::store_paths(CacheWriter& cache, const PathKey& plain, Instant now) {
  for (auto first = paths_.begin(); first != paths_.end();) {
    const Gid dgid = first->outbound.dgid;
    const auto end = std::find_if(
        first, paths_.end(), [&](const DumpedPath& path) { return path.outbound.dgid != dgid; });
    store_ways(cache, plain, {first, end}, now);
    first = end;
  }
  paths_ = {};
}

}  // namespace wireup::acm
