// SPDX-License-Identifier: BSD-3-Clause
// Which QPs are attached to which multicast group.
#pragma once

#include <cstdint>
#include <vector>

#include "softhca/fabric/fabric_view.hpp"
#include "softhca/hca/registry.hpp"

namespace softhca::hca {

/// Attaches a QP of the calling process. Attaching twice counts once. 0 or ENOSPC.
int attach_multicast(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot,
                     const Gid& mgid, std::uint16_t mlid);

/// 0, or EINVAL when the QP is not attached to this group.
int detach_multicast(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot,
                     const Gid& mgid, std::uint16_t mlid);

/// Detaches a QP that goes away from everything.
void detach_all(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot);

/// Appends the slots of the QPs of an HCA that are attached to the group. They may have changed by
/// the time the caller looks at them.
void attached_qps(const Registry& registry, std::uint32_t hca, const Gid& mgid, std::uint16_t mlid,
                  std::vector<std::uint32_t>& out);

}  // namespace softhca::hca
