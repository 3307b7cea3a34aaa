// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "base/time.hpp"
#include "rdmacm/cm_values.hpp"

namespace wireup::rdmacm {

struct Ops;

/// The kernel's connection manager, through librdmacm: its calls and events in values of ours,
/// checked. Queue pairs are the caller's own ("external"): only their numbers come here.
///
/// Never blocks. Every event is given back to the library before it is handed out, since an id with
/// an event that is not waits for ever in its destruction. Not thread-safe.
///
/// Errors of calls: Errc::NotFound for an id that is gone; else Error::error_number() is the
/// call's, and the text begins with its name.
class KernelCm {
 public:
  /// The port space of an id, which an address must fit: IB addresses or IP ones.
  enum class Space : std::uint8_t { Ib, Ip };

  /// Errc::Unsupported: this kernel, or this build, has no rdma_cm, or librdmacm is not installed.
  /// Errc::NoPermission, Errc::NoResources. `ops` nullptr: the library itself.
  [[nodiscard]] static Result<KernelCm> open(const std::string& device = kKernelCm,
                                             const Ops* ops = nullptr);

  KernelCm(KernelCm&&) noexcept;
  KernelCm& operator=(KernelCm&&) noexcept;
  /// Destroys the ids that are left: the kernel tells their peers.
  ~KernelCm();

  [[nodiscard]] Result<IdNumber> create(Space space);
  /// No-op for an id that is gone. Events of it that have not been polled vanish.
  void destroy(IdNumber id) noexcept;

  /// Binds and listens; the address with the port that the kernel chose where it was left to it.
  [[nodiscard]] Result<CmAddress> listen(IdNumber id, const CmAddress& address, int backlog);
  /// AddressResolved or AddressError follows.
  [[nodiscard]] Result<> resolve_address(IdNumber id, const CmAddress& source,
                                         const CmAddress& destination, Duration limit);
  /// Gives an id with a resolved address its route, both ways: RouteResolved follows. Values wider
  /// than their fields in an SA record are a defect.
  [[nodiscard]] Result<> set_path(IdNumber id, const mad::PathRecord& path);
  /// Sends a REQ. `retry_count` of the values counts here only.
  [[nodiscard]] Result<> connect(IdNumber id, const ConnectionValues& values);
  /// Sends a REP.
  [[nodiscard]] Result<> accept(IdNumber id, const ConnectionValues& values);
  /// Sends the RTU.
  [[nodiscard]] Result<> establish(IdNumber id);
  /// Sends a REJ: reason 28 (consumer), or 35 (ECE option) with `ece`; the kernel lets no other
  /// pass. At most ConnectionValues::kMaxPrivateData bytes.
  [[nodiscard]] Result<> reject(IdNumber id, std::span<const std::uint8_t> private_data, bool ece);
  /// Tells that data came before the RTU.
  [[nodiscard]] Result<> notify_established(IdNumber id);
  /// Sends a DREQ, or the DREP to the peer's.
  [[nodiscard]] Result<> disconnect(IdNumber id);

  /// The next event that makes sense; those that do not are counted. An error is the channel's.
  [[nodiscard]] Result<std::optional<CmEvent>> poll_event();

  /// Readable when there are events; constant for life.
  [[nodiscard]] int fd() const noexcept;
  [[nodiscard]] std::size_t ids() const noexcept;
  /// Events that were dropped: of no id of ours, or with values that no message has.
  [[nodiscard]] std::uint64_t odd_events() const noexcept;

 private:
  struct State;
  explicit KernelCm(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace wireup::rdmacm
