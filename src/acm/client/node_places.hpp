// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "acm/driver/node_directory.hpp"

namespace wireup::acm {

/// Where the processes of a node meet; as NodeClientOptions.
struct NodePlaces {
  std::string directory;
  std::string cache_directory = "/dev/shm";
  std::uint32_t cache_entries = 16384;
  /// Of a service for the ranks of every user; empty: such a service is not looked for.
  std::string public_directory = kPublicDirectory;
};

}  // namespace wireup::acm
