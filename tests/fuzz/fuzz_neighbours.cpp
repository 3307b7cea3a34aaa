// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as a part of the kernel's neighbour table: what is taken of it can be a port.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "acm/identity/neighbours.hpp"
#include "base/check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<wireup::acm::Neighbour> found;
  static_cast<void>(wireup::acm::parse_neighbours(std::span(data, size), 7, found));
  for (const auto& neighbour : found) {
    WIREUP_CHECK(!neighbour.gid.is_zero() && !neighbour.gid.is_multicast());
  }
  return 0;
}
