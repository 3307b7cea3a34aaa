// SPDX-License-Identifier: BSD-3-Clause
// The fabric as a plain value: what a sweep builds up and what a writer publishes.
#pragma once

#include <cstdint>
#include <vector>

#include "softhca/fabric/fabric_image.hpp"

namespace softhca {

struct SwitchModel {
  SwitchRecord record;
  std::vector<SwitchPortRecord> ports;  // [0] is the management port; size port_count + 1
  std::vector<std::uint8_t> lft;        // by LID; shorter than lft_top + 1 means no route
  std::vector<PortMask> mft;            // by MLID - 0xC000

  bool operator==(const SwitchModel&) const = default;
};

/// Indexes in the records (LinkRecord::index, HcaRecord::ports, PortRecord::hca_index) are
/// positions in these vectors. Entries are never removed, only marked not present, so that an
/// index names the same thing for ever.
struct FabricModel {
  std::vector<HcaRecord> hcas;
  std::vector<PortRecord> ports;
  std::vector<SwitchModel> switches;

  bool operator==(const FabricModel&) const = default;
};

}  // namespace softhca
