// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "base/ids.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// What the SA is asked with.
struct SaQuestion {
  mad::PathRecord record;
  std::uint64_t mask = 0;
};

/// What a client gave, and what every question needs: our own end (`gid`, where no source is
/// given), the partition (`pkey`, where none is given) and one path. It is to work both ways unless
/// the question is to be put `exactly` as given; then a given packet lifetime is asked for too.
[[nodiscard]] SaQuestion question_for_sa(const mad::PathRecord& given, const Gid& gid, PKey pkey,
                                         bool exactly) noexcept;

}  // namespace wireup::acm
