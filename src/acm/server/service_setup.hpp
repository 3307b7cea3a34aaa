// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "acm/server/served_port.hpp"
#include "base/error.hpp"
#include "base/result.hpp"

namespace wireup::acm {

/// Where the service's configuration is read from; the defaults are ibacm's files. A file that was
/// not named by the user need not exist.
struct ServiceFiles {
  /// Empty: /etc/rdma/ibacm_opts.cfg, if there.
  std::string options;
  /// Empty: /etc/rdma/ibacm_addr.cfg, if there.
  std::string addresses;
};

/// What the service is to serve.
struct ServiceSetup {
  std::vector<ServedPort::Options> ports;
  /// Lines of the files that were left out, each with FILE:LINE, for the log.
  std::vector<Error> problems;
  /// Where the ports come from: the address file, or the devices found.
  std::string origin;
  /// The ports' IP addresses are those of their IPoIB interfaces, and not in the address file
  /// (support_ips_in_addr_cfg).
  bool uses_interfaces = true;
};

/// Reads the files. Without an address file every InfiniBand port of this host is served, under the
/// short host name (its first ACTIVE port, else its first) and "HOST-N" (each port, N from 1), as
/// ibacm does. Errc::NotFound: a file that was named is not there. Errc::NoPermission: it cannot be
/// read.
[[nodiscard]] Result<ServiceSetup> read_setup(const ServiceFiles& files);

}  // namespace wireup::acm
