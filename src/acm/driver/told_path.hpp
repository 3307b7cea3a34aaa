// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "mad/acm.hpp"
#include "mad/path_record.hpp"
#include "verbs/port_info.hpp"

namespace wireup::acm {

/// Is `record`, which `who` told ("the service at /run/ibacm.sock"), a path from `port` in the
/// partition `pkey` to `destination`, with the SL that was asked for, if one was?
/// Errc::PathUnresolved: no.
[[nodiscard]] Result<> check_told_path(const mad::PathRecord& record, const verbs::PortInfo& port,
                                       PKey pkey, const mad::AcmAddress& destination,
                                       std::optional<Sl> sl, const char* who);

}  // namespace wireup::acm
