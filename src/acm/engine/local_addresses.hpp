// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "acm/engine/port_identity.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

/// The addresses that a port answers for: its GID and LIDs, and the names and IP addresses it was
/// given. Names are compared without regard to case here (and only here: what others are called is
/// not ours to change).
class LocalAddresses {
 public:
  LocalAddresses() = default;
  explicit LocalAddresses(const std::vector<mad::AcmAddress>& given);

  [[nodiscard]] bool contains(const mad::AcmAddress& address,
                              const PortIdentity& port) const noexcept;
  friend bool operator==(const LocalAddresses&, const LocalAddresses&) noexcept = default;

 private:
  /// Sorted, names in lower case.
  std::vector<mad::AcmAddress> given_;
};

}  // namespace wireup::acm
