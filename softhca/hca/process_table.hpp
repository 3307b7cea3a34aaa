// SPDX-License-Identifier: BSD-3-Clause
// Who is enrolled in the fabric, and whether they still live.
#pragma once

#include <cstdint>
#include <optional>

#include "softhca/hca/layout.hpp"

namespace softhca::hca {

/// What /proc says of a process.
struct ProcessStatus {
  char state = 0;  // as in /proc/PID/stat: R, S, D, T, t, Z, X
  std::uint64_t start_time = 0;
};

/// Reads /proc/PID/stat; nullopt when there is no such process.
std::optional<ProcessStatus> read_process_status(std::uint32_t pid);

enum class Liveness { Alive, Stopped, Dead };

/// The token of a process names its record and its enrolment: record number + 1 in the low 12 bits,
/// a counter above.
inline constexpr std::uint32_t kTokenSlotBits = 12;
static_assert(kMaxProcesses < (1U << kTokenSlotBits));

constexpr std::uint32_t token_slot(std::uint32_t token) {
  return (token & ((1U << kTokenSlotBits) - 1)) - 1;
}

/// Read side of the process records. Any thread.
class ProcessTable {
 public:
  explicit ProcessTable(const RegistryHeader* header) : header_(header) {}

  /// The record of a token, nullptr when that enrolment has ended.
  [[nodiscard]] const ProcessRecord* find(std::uint32_t token) const;

  /// Asks /proc; costs some 10 us.
  [[nodiscard]] Liveness liveness(std::uint32_t token) const;

 private:
  const RegistryHeader* header_;
};

}  // namespace softhca::hca
