// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "verbs/device.hpp"
#include "verbs/handle.hpp"
#include "verbs/ops.hpp"

namespace wireup::verbs {

// Owners of the objects of libibverbs: move-only, destroyed with the owner, `raw()` for the C
// object. A child must die before the objects it was made from. A failed creation says what was to
// be made, on which device, and with which sizes; ENOMEM under a locked-memory limit is
// Errc::MemlockLimit with the limit and the need.

class Pd {
 public:
  [[nodiscard]] static Result<Pd> open(const Device& device);
  [[nodiscard]] ibv_pd* raw() const noexcept { return handle_.raw(); }
  [[nodiscard]] const DeviceFacts& device() const noexcept { return *device_; }

 private:
  const DeviceFacts* device_ = nullptr;
  Handle<ibv_pd> handle_;
};

/// A completion channel whose fd does not block.
class CompletionChannel {
 public:
  [[nodiscard]] static Result<CompletionChannel> open(const Device& device);
  [[nodiscard]] ibv_comp_channel* raw() const noexcept { return handle_.raw(); }
  [[nodiscard]] int fd() const noexcept { return handle_.raw()->fd; }

 private:
  Handle<ibv_comp_channel> handle_;
};

/// A completion queue of at least `entries`, which is clamped to the device's limit.
class Cq {
 public:
  [[nodiscard]] static Result<Cq> open(const Device& device, std::uint32_t entries,
                                       const CompletionChannel* channel = nullptr);
  [[nodiscard]] ibv_cq* raw() const noexcept { return handle_.raw(); }
  /// The number of entries that was given.
  [[nodiscard]] std::uint32_t entries() const noexcept { return entries_; }

  /// Takes and acknowledges the waiting events of `channel` (they must be of this queue) and asks
  /// for the next one. Poll the queue after it: what came before is not announced again.
  [[nodiscard]] Result<> arm(const CompletionChannel& channel) const;
  /// Takes up to completions.size() completions. Fails when the queue is broken (overrun).
  [[nodiscard]] Result<std::size_t> poll(std::span<ibv_wc> completions) const;

 private:
  const Ops* ops_ = nullptr;
  std::uint32_t entries_ = 0;
  Handle<ibv_cq> handle_;
};

/// Registered memory; the caller keeps `memory` alive and in place.
class Mr {
 public:
  [[nodiscard]] static Result<Mr> open(const Pd& pd, std::span<std::uint8_t> memory, int access);
  [[nodiscard]] ibv_mr* raw() const noexcept { return handle_.raw(); }
  [[nodiscard]] std::uint32_t lkey() const noexcept { return handle_.raw()->lkey; }

 private:
  Handle<ibv_mr> handle_;
};

class AddressHandle {
 public:
  [[nodiscard]] static Result<AddressHandle> open(const Pd& pd, const ibv_ah_attr& attr);
  [[nodiscard]] ibv_ah* raw() const noexcept { return handle_.raw(); }

 private:
  Handle<ibv_ah> handle_;
};

class Qp {
 public:
  /// `attr` is as for ibv_create_qp; depths are clamped to the device's limits.
  [[nodiscard]] static Result<Qp> open(const Pd& pd, const ibv_qp_init_attr& attr);
  [[nodiscard]] ibv_qp* raw() const noexcept { return handle_.raw(); }
  [[nodiscard]] Qpn qpn() const noexcept { return Qpn(handle_.raw()->qp_num & Qpn::kMax); }
  /// `step` names the transition in the error ("INIT to RTR").
  [[nodiscard]] Result<> modify(const ibv_qp_attr& attr, int mask, const char* step) const;

 private:
  const DeviceFacts* device_ = nullptr;
  Handle<ibv_qp> handle_;
};

/// The error of a creation that failed with `error_number`: ENOMEM while RLIMIT_MEMLOCK binds this
/// process gives Errc::MemlockLimit with the limit and `bytes_needed`, an estimate; else
/// Errc::NoResources or Errc::NoPermission. `what` names the object and its size.
[[nodiscard]] Error creation_error(const char* what, std::string_view device, int error_number,
                                   std::size_t bytes_needed);

}  // namespace wireup::verbs
