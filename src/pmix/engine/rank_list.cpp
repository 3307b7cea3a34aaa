// SPDX-License-Identifier: BSD-3-Clause
#include "pmix/engine/rank_list.hpp"

#include <algorithm>
#include <charconv>

namespace wireup::pmix {

std::optional<std::vector<std::uint32_t>> parse_rank_list(std::string_view text,
                                                          std::uint32_t size) {
  std::vector<std::uint32_t> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::uint32_t rank = 0;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error != std::errc{} || rank >= size) {
      return std::nullopt;
    }
    ranks.push_back(rank);
    if (next == end) {
      break;
    }
    if (*next != ',') {
      return std::nullopt;
    }
    at = next + 1;
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace wireup::pmix
