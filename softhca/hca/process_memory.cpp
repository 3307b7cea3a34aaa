// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/process_memory.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace softhca::hca {
namespace {

void say_once(std::uint32_t pid, int error) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    std::fprintf(stderr,
                 "softhca: the kernel refuses process_vm_writev to process %u (%s: another user, "
                 "ptrace_scope or a seccomp profile): data goes through shared memory instead, "
                 "which is slower\n",
                 pid, std::strerror(error));
  }
}

}  // namespace

void ProcessMemory::probe() {
  std::uint64_t from = 1;
  std::uint64_t to = 0;
  SegmentList here;
  SegmentList there;
  here.add(reinterpret_cast<std::uint64_t>(&from), sizeof from);
  there.add(reinterpret_cast<std::uint64_t>(&to), sizeof to);
  const auto pid = static_cast<std::uint32_t>(::getpid());
  if (write_to_process(pid, here, there) == CopyResult::Denied) {
    say_once(pid, errno);
    denied_all_.store(true);
  }
}

void ProcessMemory::remember_denial(std::uint32_t token, int error) {
  const ProcessRecord* process = registry_->processes().find(token);
  say_once(process != nullptr ? process->pid : 0, error);
  denied_[token_slot(token)].store(token, std::memory_order_relaxed);
}

CopyResult ProcessMemory::copy(std::uint32_t token, bool write, const SegmentList& local,
                               const SegmentList& remote) {
  const ProcessRecord* process = registry_->processes().find(token);
  if (process == nullptr) {
    return CopyResult::Gone;
  }
  if (!denied_all_.load(std::memory_order_relaxed) &&
      denied_[token_slot(token)].load(std::memory_order_relaxed) != token) {
    const CopyResult result =
        (write ? write_to_process : read_from_process)(process->pid, local, remote);
    if (result != CopyResult::Denied) {
      return result;
    }
    remember_denial(token, errno);
  }
  return copy_by_relay(*registry_, self_, token, write, local, remote);
}

}  // namespace softhca::hca
