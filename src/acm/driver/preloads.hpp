// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "acm/files/path_dump.hpp"
#include "base/error.hpp"
#include "mad/acm.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// Files to read before anybody is asked; an empty name: none.
struct PreloadFiles {
  /// OpenSM's dump of full path records.
  std::string routes;
  /// ibacm's list of names and IP addresses with their GIDs.
  std::string hosts;
};

/// What files say of a port's peers: an administrator's, so they count as much as the SA's answers,
/// until a path fails or the port gets another LID.
class Preloads {
 public:
  Preloads() = default;
  /// Reads the files for the port `own`. What cannot be used is in problems(), each text with its
  /// FILE:LINE.
  [[nodiscard]] static Preloads read(const PreloadFiles& files, const DumpedPort& own);

  /// Of a GID, a LID, or a name or IP address whose GID has a path; nullptr: none.
  [[nodiscard]] const mad::PathRecord* path(const mad::AcmAddress& address) const;
  /// Which port has a name or IP address.
  [[nodiscard]] std::optional<Gid> gid(const mad::AcmAddress& address) const;
  /// A path did not work: it is not offered again.
  void forget(const Gid& gid);

  [[nodiscard]] const std::map<Gid, mad::PathRecord>& paths() const noexcept { return paths_; }
  [[nodiscard]] const std::vector<Error>& problems() const noexcept { return problems_; }

 private:
  void read_routes(const std::string& file, const DumpedPort& own);
  void read_hosts(const std::string& file);

  std::map<Gid, mad::PathRecord> paths_;
  std::map<Lid, Gid> lids_;
  std::map<mad::AcmAddress, Gid> hosts_;
  std::vector<Error> problems_;
};

}  // namespace wireup::acm
