// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/cache_view.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "acm/client/directory_names.hpp"
#include "acm/driver/node_directory.hpp"

namespace wireup::acm {
namespace {

using LastCaches = std::map<std::tuple<bool, uid_t, Guid, std::uint16_t>, CacheFile>;

void find_in(const std::string& directory, bool is_public, LastCaches& last) {
  for (const std::string& entry : names_in(directory)) {
    const auto name = parse_cache_name(entry);
    if (!name.has_value() || name->uid.has_value() == is_public) {
      continue;
    }
    const std::string path = path_in(directory, entry);
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) {
      continue;
    }
    const uid_t uid = name->uid.value_or(status.st_uid);
    if (uid != 0 && uid != geteuid()) {
      continue;
    }
    CacheFile& kept = last[{is_public, uid, name->port_guid, name->partition}];
    if (kept.path.empty() || kept.epoch < name->epoch) {
      kept = {path, uid, is_public, name->port_guid, name->partition, name->epoch};
    }
  }
}

}  // namespace

std::vector<CacheFile> find_caches(const NodePlaces& places) {
  LastCaches last;
  find_in(places.cache_directory, false, last);
  if (!places.public_directory.empty()) {
    find_in(places.public_directory, true, last);
  }
  std::vector<CacheFile> found;
  for (auto& [key, file] : last) {
    found.push_back(std::move(file));
  }
  return found;
}

Result<CacheView> view_cache(const CacheFile& file, Instant now) {
  const auto reader = CacheReader::open(file.path);
  if (!reader) {
    return fail(reader.error());
  }
  CacheView view;
  view.file = file;
  view.capacity = reader->capacity();
  view.generation = reader->generation();
  view.bytes = reader->size().bytes;
  view.entries = reader->entries(now);
  return view;
}

std::optional<ResolvedPath> find_record(const std::vector<CacheFile>& caches,
                                        const mad::PathRecord& record, Instant now) {
  std::optional<ResolvedPath> found;
  for (const CacheFile& file : caches) {
    const auto reader = CacheReader::open(file.path);
    if (!reader || file.partition != record.pkey.partition()) {
      continue;
    }
    // The key's P_Key is the port's own, the record's may have the other membership.
    for (const std::uint16_t membership : {std::uint16_t{0}, PKey::kFullMember}) {
      PathKey key;
      key.sgid = record.sgid;
      key.dgid = record.dgid;
      key.pkey = PKey(static_cast<std::uint16_t>(record.pkey.partition() | membership));
      for (const CachedPath& entry : reader->paths(key, now)) {
        if (entry.path.record == record && (!found.has_value() || entry.path.age < found->age)) {
          found = entry.path;
        }
      }
    }
  }
  return found;
}

}  // namespace wireup::acm
