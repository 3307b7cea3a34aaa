// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/asynchrony.hpp"

#include "softhca/fabric/random.hpp"

namespace softhca::hca {

std::uint64_t drawn_delay_ns(const Asynchrony& settings, Wait kind, std::uint32_t hca,
                             std::uint32_t qpn, std::uint64_t n) {
  const std::uint64_t who = std::uint64_t{hca} << 32 | qpn;
  const std::uint64_t random =
      mix(mix(mix(settings.seed) ^ who) ^ (n << 3 | static_cast<std::uint64_t>(kind)));
  const std::uint64_t longest = std::uint64_t{settings.longest_us} * 1000;
  // One of four is anywhere up to the longest, the others within its first eighth.
  const std::uint64_t range = (random & 3U) == 0 ? longest : longest / 8;
  return range == 0 ? 0 : (random >> 2) % (range + 1);
}

}  // namespace softhca::hca
