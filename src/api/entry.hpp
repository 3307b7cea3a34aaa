// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "api/context.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "wireup/wireup.h"

// What the entries of the C API share.
namespace wireup::api {

/// Reports that an argument of `call` is NULL, or the struct_size of one too small.
wireup_status_t null_argument(const char* call) noexcept;
wireup_status_t small_struct(const char* call) noexcept;

[[nodiscard]] wireup_status_t to_status(const Result<>& result) noexcept;

/// The peer's full name; a namespace that is too long is an error.
[[nodiscard]] Result<PeerId> peer_id(const wireup_context_t& context, const wireup_peer_t& peer);

}  // namespace wireup::api
