// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "softhca/hca/memory.hpp"
#include "softhca/hca/transport.hpp"

namespace softhca::hca {

/// The sender's own memory a request names. Inline data needs no key. `access` is what the keys
/// must allow: 0 to read from it, IBV_ACCESS_LOCAL_WRITE to write to it. nullopt: a key does not.
std::optional<SegmentList> local_list(const Sender& sender, const SendRequest& request,
                                      std::uint32_t access);

}  // namespace softhca::hca
