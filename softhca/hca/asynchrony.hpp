// SPDX-License-Identifier: BSD-3-Clause
// The asynchronous mode: work requests are executed and completed some time after they were posted,
// as on hardware, so that races show which the usual execution inside ibv_post_send hides.
#pragma once

#include <cstdint>

namespace softhca::hca {

/// Settings of a fabric.
struct Asynchrony {
  bool on = false;
  std::uint32_t longest_us = 200;  // of a delay; each is drawn anew between 0 and this
  std::uint64_t seed = 1;

  bool operator==(const Asynchrony&) const = default;
};

/// What waits.
enum class Wait : std::uint32_t {
  Execution = 1,   // from posting to the first look at the request's memory
  Completion = 2,  // from the peer's side of the work to the sender's completion
  Wire = 3,        // of a datagram between its two ports
  Flush = 4,       // from entering the error state to the flushing of sends
};

/// The n-th delay of a kind for queue pair `qpn` of an HCA, in nanoseconds; pure. Most delays are
/// short and some are long: that interleaves queue pairs more than an even draw would.
std::uint64_t drawn_delay_ns(const Asynchrony& settings, Wait kind, std::uint32_t hca,
                             std::uint32_t qpn, std::uint64_t n);

}  // namespace softhca::hca
