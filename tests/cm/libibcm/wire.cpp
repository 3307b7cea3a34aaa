// SPDX-License-Identifier: BSD-3-Clause
#include "wire.hpp"

namespace wireup::cm::ibcm {

// In the place of the ports over QP1.
Result<std::vector<std::unique_ptr<Port>>> open_ports(ibv_context* context) {
  const std::uint8_t host = Wire::host_of(context);
  if (host == 0) {
    return fail(Error::make(Errc::Busy, "host 0 has a port that another process uses"));
  }
  std::vector<std::unique_ptr<Port>> ports;
  ports.push_back(std::make_unique<WirePort>(host));
  return ports;
}

}  // namespace wireup::cm::ibcm
