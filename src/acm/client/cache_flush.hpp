// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "acm/client/cache_view.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// Makes every entry of the cache void and returns the cache's new generation. A living resolver is
/// asked to do it, since it knows the paths too; where there is none, its lock is taken for that
/// time. Only for root and the user whose cache it is: Errc::NoPermission. Errc::Timeout: the
/// resolver did not do it until `deadline`.
[[nodiscard]] Result<std::uint32_t> flush_cache(const CacheFile& cache, const NodePlaces& places,
                                                Instant deadline);

}  // namespace wireup::acm
