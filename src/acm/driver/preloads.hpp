// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "acm/cache/node_cache.hpp"
#include "acm/engine/path.hpp"
#include "acm/files/path_dump.hpp"
#include "base/error.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// Files to read before anybody is asked; an empty name: none.
struct PreloadFiles {
  /// OpenSM's dump of full path records.
  std::string routes;
  /// ibacm's list of names and IP addresses with their GIDs.
  std::string hosts;
};

/// What files say of a port's peers: an administrator's, so it counts as much as the SA's answers,
/// until a path fails or the port gets another LID. The paths are for the node cache, which alone
/// keeps them; names stay here.
class Preloads {
 public:
  Preloads() = default;
  /// Reads the files for the port `own`. What cannot be used is in problems(), each text with its
  /// FILE:LINE.
  [[nodiscard]] static Preloads read(const PreloadFiles& files, const DumpedPort& own);

  /// Which port has a name or IP address.
  [[nodiscard]] std::optional<Gid> gid(const mad::AcmAddress& address) const;

  /// Stores the paths under the keys of their peers: several where a port has several LIDs, the way
  /// back where it differs. `plain` is the key to any peer. They are given away: the file may hold
  /// those of a large fabric.
  void store_paths(CacheWriter& cache, const PathKey& plain, Instant now);
  /// There were paths.
  [[nodiscard]] bool has_paths() const noexcept { return has_paths_; }
  [[nodiscard]] const std::vector<Error>& problems() const noexcept { return problems_; }

 private:
  void read_routes(const std::string& file, const DumpedPort& own);
  void read_hosts(const std::string& file);

  /// To others than the own port, ascending by GID, those of a GID by DLID.
  std::vector<DumpedPath> paths_;
  bool has_paths_ = false;
  std::map<mad::AcmAddress, Gid> hosts_;
  std::vector<Error> problems_;
};

}  // namespace wireup::acm
