// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softhca::hca {

/// Whether this process has a capability (CAP_…, below 32) in effect.
bool has_capability(unsigned number);

}  // namespace softhca::hca
