// SPDX-License-Identifier: BSD-3-Clause
// Memory keys: what a key allows, and to which address it leads.
#pragma once

#include <cstdint>
#include <optional>

#include "softhca/hca/layout.hpp"
#include "softhca/hca/registry.hpp"

namespace softhca::hca {

/// Looks a key up for an access of `length` bytes at `address` (an address in the region's own,
/// possibly shifted, numbering). `token` and `pd` must be those of the region, and the region must
/// have all bits of `access`. Returns the address in the owner's memory.
///
/// A region cannot vanish during an access made under the rx_lock of a QP of its PD, or under the
/// send lock of such a QP: deregistration takes each of these locks once after it has taken back
/// the key.
std::optional<std::uint64_t> translate(const Registry& registry, std::uint32_t key,
                                       std::uint32_t token, std::uint32_t pd, std::uint64_t address,
                                       std::uint64_t length, std::uint32_t access);

}  // namespace softhca::hca
