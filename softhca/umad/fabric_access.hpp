// SPDX-License-Identifier: BSD-3-Clause
// Which fabric and which host this process is on, from its environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "softhca/fabric/fabric_view.hpp"

namespace softhca {

/// One port as umad names it.
struct NamedPort {
  HcaInfo hca;
  std::uint32_t number = 0;  // from 1
  PortIndex index = kNoPort;
};

/// The fabric as seen from the host named by SOFTHCA_DIR and SOFTHCA_HOST. Outside of such an
/// environment, and while no agent serves it, there are no devices. Thread-safe.
class FabricAccess {
 public:
  static FabricAccess& instance();

  /// The host's HCAs now, by name; empty without a fabric.
  std::vector<HcaInfo> hcas();

  /// `name` nullptr or "" is any HCA; `number` 0 is any port: the first ACTIVE one, else the first
  /// with its link up, else the first.
  std::optional<NamedPort> find(const char* name, int number);

  PortAttr port(PortIndex index);

  /// SOFTHCA_DIR, or nullptr.
  [[nodiscard]] const char* dir() const { return dir_.empty() ? nullptr : dir_.c_str(); }

 private:
  FabricAccess();
  std::shared_ptr<FabricView> view();

  std::string dir_;
  std::string host_;
  bool debug_ = false;
  std::shared_ptr<FabricView> view_;  // accessed by std::atomic_load and atomic_store
};

}  // namespace softhca
