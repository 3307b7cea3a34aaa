// SPDX-License-Identifier: BSD-3-Clause
// Which ports have a subnet manager that holds its issm device open. A port's issm device is a FIFO
// in SOFTHCA_DIR/issm, named by the port's index: as with the kernel's, to have it open is all that
// is to be done, so a subnet manager that dies takes its IsSM bit with it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "softhca/fabric/fabric_image.hpp"

namespace softhca {

/// Not thread-safe.
class IssmWatch {
 public:
  /// Makes the folder, open to all users if the fabric is root's. nullptr with errno.
  static std::unique_ptr<IssmWatch> create(const std::string& dir);
  IssmWatch(const IssmWatch&) = delete;
  IssmWatch& operator=(const IssmWatch&) = delete;
  ~IssmWatch();

  /// Readable when update() may find something new.
  [[nodiscard]] int fd() const { return epoll_; }

  /// Looks again. The ports whose state has changed.
  std::vector<PortIndex> update();

  [[nodiscard]] bool is_open(PortIndex port) const { return held_.count(port) != 0; }

 private:
  IssmWatch(std::string folder, int inotify, int epoll)
      : folder_(std::move(folder)), inotify_(inotify), epoll_(epoll) {}

  /// Whether, since the last call, anything in the folder was made or opened, by us too.
  bool something_was_opened();

  std::string folder_;
  bool first_look_ = true;
  int inotify_;
  int epoll_;
  std::map<PortIndex, int> held_;  // our writing ends of the FIFOs that somebody has open
};

}  // namespace softhca
