// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/transport.hpp"

#include <array>

namespace softhca::hca {

std::uint64_t rnr_timer_ns(std::uint8_t code) {
  // In units of 10 us, by code.
  constexpr std::array<std::uint32_t, 32> kTenMicroseconds{
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return std::uint64_t{kTenMicroseconds[code & 31U]} * 10'000U;
}

}  // namespace softhca::hca
