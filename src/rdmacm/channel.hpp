// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/result.hpp"
#include "rdmacm/ops.hpp"

namespace wireup::rdmacm {

/// An event channel of librdmacm: a descriptor that is non-blocking and closed on exec. The ids on
/// it must be gone before it.
class Channel {
 public:
  /// Errc::Unsupported: there is no `device`, so the kernel here has no rdma_cm, or librdmacm is
  /// not installed. Found out by one look at a file. Errc::NoPermission, Errc::NoResources. `ops`
  /// nullptr: the library itself.
  [[nodiscard]] static Result<Channel> open(const char* device, const Ops* ops);

  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  [[nodiscard]] const Ops& ops() const noexcept { return *ops_; }
  [[nodiscard]] rdma_event_channel* get() const noexcept { return channel_; }
  [[nodiscard]] int fd() const noexcept { return channel_->fd; }

 private:
  Channel(const Ops* ops, rdma_event_channel* channel) noexcept : ops_(ops), channel_(channel) {}

  const Ops* ops_;
  rdma_event_channel* channel_;
};

}  // namespace wireup::rdmacm
