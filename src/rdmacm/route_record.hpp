// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/sa.h>

#include "base/result.hpp"
#include "mad/path_record.hpp"

namespace wireup::rdmacm {

/// A path as librdmacm has it (partly in network byte order). Errc::Malformed: a value is wider
/// than its field in an SA record.
[[nodiscard]] Result<mad::PathRecord> to_record(const ibv_sa_path_rec& path);

}  // namespace wireup::rdmacm
