// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace wireup::pmix {

/// Ranks from a text of decimal numbers with commas between ("0,3,12"), as launchers give the peers
/// of a node; ascending and without repetitions. Nothing when the text is anything else, or a rank
/// is not below `size`.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> parse_rank_list(std::string_view text,
                                                                        std::uint32_t size);

}  // namespace wireup::pmix
