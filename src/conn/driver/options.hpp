// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cm/driver/carrier.hpp"
#include "verbs/port_info.hpp"

namespace wireup::conn {

/// How a context's connections are made. Depths are clamped to the device's limits.
struct Options {
  /// Nothing: the first P_Key of the port's table with full membership, else its first.
  std::optional<PKey> pkey;
  std::uint32_t send_depth = 64;
  std::uint32_t receive_depth = 64;
  std::uint32_t max_sge = 1;
  std::uint32_t inline_size = 64;
  /// Entries of each completion queue; 0: see cq_entries_for().
  std::uint32_t cq_entries = 0;
  std::uint32_t spare_qps = 4;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
  Duration accept_timeout = std::chrono::seconds(30);
  /// Where no path can be found, make one from the peer's card (card_path.hpp).
  bool card_paths = true;
  /// Where CM messages are captured (cm::capture_file()); empty: nowhere.
  std::string cm_capture;
  /// What carries the CM's messages; nothing: the first that can be had. Who says so, for people.
  std::optional<cm::CarrierKind> carrier = {};
  std::string carrier_set_by = {};
  /// Make progress in a thread of our own, named "wireup-progress".
  bool helper_thread = false;
};

/// Entries of a completion queue that `peers` queue pairs of `depth` share: all of them at full
/// depth, at least 256, at most kMaxCqEntries.
inline constexpr std::uint32_t kMaxCqEntries = 65536;
[[nodiscard]] std::uint32_t cq_entries_for(std::uint32_t peers, std::uint32_t depth) noexcept;

/// The P_Key to use of a port's table: `wanted` if it is there, else the first with full
/// membership, else the first. Errc::InvalidArgument or Errc::NoDevice when there is none.
[[nodiscard]] Result<PKey> choose_pkey(const verbs::PortInfo& port, std::optional<PKey> wanted);

/// The Q_Key of a job's CM endpoints, equal in all its processes: from the namespace's hash, never
/// 0, bit 31 clear (a privileged Q_Key would need CAP_NET_RAW).
[[nodiscard]] QKey job_qkey(std::uint64_t job) noexcept;

}  // namespace wireup::conn
