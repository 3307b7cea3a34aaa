// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

/// What one end of a pair has seen, as gathered to rank 0.
struct EndRecord {
  /// CONNECTED events; one is right.
  std::uint32_t connected = 0;
  std::uint32_t disconnected = 0;
  std::uint32_t local_qpn = 0;
  std::uint32_t peer_qpn = 0;
  std::uint32_t path_origin = 0;
  std::uint32_t passive = 0;
  std::uint32_t verified = 0;
  std::uint32_t reserved = 0;
  std::uint64_t connect_ns = 0;
  std::array<std::uint8_t, 16> sgid{};
  std::array<std::uint8_t, 16> dgid{};
};

/// All ends of the job: the record of `rank`'s end towards `peer` is ends[rank * ranks + peer].
struct JobRecord {
  std::uint32_t ranks = 0;
  std::uint32_t hosts = 0;
  std::uint64_t retransmits = 0;
  std::uint64_t crossed = 0;
  /// What carries rank 0's CM messages, and why.
  std::string carrier;
  /// Of rank 0: opening the context, connecting with the exchange of messages, disconnecting.
  std::array<double, 3> phases_ms{};
  std::vector<EndRecord> ends;
};

struct Report {
  std::uint32_t connections = 0;
  std::uint32_t failed = 0;
  bool verified = false;
  std::string json;
};

/// Checks every pair (one connection, the same one at both ends, data verified) and writes it up.
[[nodiscard]] Report make_report(const JobRecord& job);
