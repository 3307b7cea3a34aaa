// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"
#include "mad/path_record.hpp"
#include "rdmacm/cm_values.hpp"

namespace wireup::rdmacm {

struct Ops;

/// Path records from the kernel's connection manager, through librdmacm: the kernel finds the
/// address (rdma_resolve_addr) and asks the SA for the path (rdma_resolve_route) on behalf of a
/// process that may do neither. Not seen with a kernel that has rdma_cm and an InfiniBand port yet.
///
/// GIDs are asked for as AF_IB addresses, IP addresses as they are; names and LIDs the kernel does
/// not know. Not thread-safe; never blocks.
class KernelPaths {
 public:
  struct Options {
    /// The port to ask from, and its partition.
    Gid sgid;
    PKey pkey;
    std::string device = kKernelCm;
  };
  /// Errc::Unsupported: this kernel, or this build, has no rdma_cm, or librdmacm is not installed.
  /// Found out by one look at a file. Errc::NoPermission, Errc::NoResources. `ops` nullptr: the
  /// library itself.
  [[nodiscard]] static Result<KernelPaths> open(const Options& options, const Ops* ops = nullptr);

  KernelPaths(KernelPaths&&) noexcept;
  KernelPaths& operator=(KernelPaths&&) noexcept;
  ~KernelPaths();

  using QuestionId = std::uint64_t;
  /// One Answer with `id` follows, at `deadline` at the latest.
  void ask(QuestionId id, const mad::AcmAddress& destination, ServiceId service, Instant deadline,
           Instant now);

  /// The record as the kernel says it: who wants it compares it with its port. Errors:
  /// Errc::PathUnresolved (with the step and the kernel's reason), Errc::Timeout,
  /// Errc::Unsupported (a name or LID), Errc::NoResources, Errc::Malformed.
  struct Answer {
    QuestionId id = 0;
    Result<mad::PathRecord> path;
  };
  [[nodiscard]] std::optional<Answer> poll_answer();

  /// Readable when progress() has something to do; constant for life.
  [[nodiscard]] int fd() const noexcept;
  void progress(Instant now);
  [[nodiscard]] std::optional<Instant> poll_timeout() const;
  /// Questions without an answer.
  [[nodiscard]] std::size_t pending() const noexcept;

 private:
  struct State;
  explicit KernelPaths(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace wireup::rdmacm
