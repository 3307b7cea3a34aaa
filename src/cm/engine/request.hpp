// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/result.hpp"
#include "cm/engine/types.hpp"
#include "mad/cm.hpp"

namespace wireup::cm {

/// The REQ of a connect, but for TID and communication id. Errc::InvalidArgument when a code of the
/// path does not fit its field or the alternate path differs in P_Key or MTU.
[[nodiscard]] Result<mad::Req> make_req(const ConnectParams& params, const Config& config);

}  // namespace wireup::cm
