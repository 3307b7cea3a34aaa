// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/process_table.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace softhca::hca {

// System calls are made directly here and on the data path: sanitizers and other preloads wrap the
// libc functions, and what the emulated hardware does is none of their business.
std::optional<ProcessStatus> read_process_status(std::uint32_t pid) {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%u/stat", pid);
  const long fd = ::syscall(SYS_openat, AT_FDCWD, path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return std::nullopt;
  }
  std::array<char, 1024> text{};
  const long length = ::syscall(SYS_read, fd, text.data(), text.size());
  ::syscall(SYS_close, fd);
  if (length <= 0) {
    return std::nullopt;
  }
  // The command name, in parentheses, may hold anything; the fields count from its end.
  const std::string_view line(text.data(), static_cast<std::size_t>(length));
  std::size_t at = line.rfind(')');
  if (at == std::string_view::npos || at + 2 >= line.size()) {
    return std::nullopt;
  }
  at += 2;
  ProcessStatus status;
  status.state = line[at];
  constexpr int kStateField = 3;
  constexpr int kStartTimeField = 22;
  for (int field = kStateField; field < kStartTimeField; ++field) {
    at = line.find(' ', at);
    if (at == std::string_view::npos) {
      return std::nullopt;
    }
    ++at;
  }
  std::from_chars(line.data() + at, line.data() + line.size(), status.start_time);
  return status;
}

const ProcessRecord* ProcessTable::find(std::uint32_t token) const {
  const std::uint32_t slot = token_slot(token);
  if (token == 0 || slot >= kMaxProcesses) {
    return nullptr;
  }
  const ProcessRecord& record = header_->processes[slot];
  return record.token.load(std::memory_order_acquire) == token ? &record : nullptr;
}

Liveness ProcessTable::liveness(std::uint32_t token) const {
  const ProcessRecord* record = find(token);
  if (record == nullptr) {
    return Liveness::Dead;
  }
  const auto status = read_process_status(record->pid);
  if (!status || status->start_time != record->start_time || status->state == 'Z' ||
      status->state == 'X') {
    return Liveness::Dead;
  }
  return status->state == 'T' || status->state == 't' ? Liveness::Stopped : Liveness::Alive;
}

}  // namespace softhca::hca
