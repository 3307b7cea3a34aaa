// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "verbs/device.hpp"

namespace wireup::verbs {

/// Where a datagram goes to. `global` adds a GRH with the fields after it. Ids in host byte order;
/// `static_rate` is an IBA rate code, 0 = the port's own.
struct UdDestination {
  Lid dlid;
  Qpn qpn;
  QKey qkey;
  Sl sl;
  std::uint8_t static_rate = 0;
  std::uint8_t path_bits = 0;
  bool global = false;
  Gid dgid;
  std::uint8_t sgid_index = kIbGidIndex;
  FlowLabel flow_label;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  friend constexpr bool operator==(const UdDestination&, const UdDestination&) noexcept = default;
};

/// A received datagram. `bytes` (without the GRH) is valid until the callback returns; nothing in
/// it has been checked. The fields after has_grh are from the GRH and zero without one.
struct UdDatagram {
  std::span<const std::uint8_t> bytes;
  Lid slid;
  Qpn source_qpn;
  Sl sl;
  std::uint8_t path_bits = 0;
  bool has_grh = false;
  Gid sgid;
  Gid dgid;
  FlowLabel flow_label;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
};

/// Counts since open.
struct UdCounters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  /// Completions with an error status.
  std::uint64_t failed = 0;
  /// Times the QP was brought back from the error state.
  std::uint64_t restarts = 0;
};

/// One UD QP with its queues, completion channel and one registered pool of buffers; the QP is
/// ready to send and its receives are posted. Not thread-safe: one owner at a time. Sends copy the
/// bytes; address handles are cached by destination.
class UdEndpoint {
 public:
  struct Options {
    std::uint8_t port = 1;
    std::uint16_t pkey_index = 0;
    QKey qkey;
    std::uint32_t send_depth = 64;
    std::uint32_t receive_depth = 256;
    /// Largest datagram, sent or received, without the GRH.
    std::size_t message_size = 256;
    /// Address handles kept.
    std::size_t max_address_handles = 1024;
  };
  using Destination = UdDestination;
  using Datagram = UdDatagram;

  /// Errors: Errc::MemlockLimit, Errc::NoResources, Errc::NoPermission (a privileged Q_Key, bit 31
  /// set, needs CAP_NET_RAW on kernels since 2023). `device` must outlive the endpoint.
  [[nodiscard]] static Result<UdEndpoint> open(const Device& device, const Options& options);

  UdEndpoint(UdEndpoint&&) noexcept;
  UdEndpoint& operator=(UdEndpoint&&) noexcept;
  ~UdEndpoint();

  /// Errc::Busy when every send buffer is in flight: try again after the next turn of the loop, or
  /// leave it to the retransmission. Errc::InvalidArgument when the bytes are more than
  /// message_size. Other errors are the device's.
  [[nodiscard]] Result<> send(const Destination& to, std::span<const std::uint8_t> bytes);

  /// Calls `on_datagram(const Datagram&)` for at most `max` received datagrams, posts their
  /// buffers again, and frees buffers of finished sends. The callback may call send(). Returns the
  /// number of datagrams. A QP in the error state (a datagram larger than the buffers does that)
  /// is brought back and counted; an error means that this failed.
  template <typename F>
  [[nodiscard]] Result<std::size_t> poll(F&& on_datagram, std::size_t max) {
    using Callback = std::remove_reference_t<F>;
    return poll_with(
        [](void* callback, const Datagram& datagram) {
          (*static_cast<Callback*>(callback))(datagram);
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(on_datagram))), max);
  }

  /// Consumes the readiness of fd() and asks for the next: then poll() until it returns 0, and
  /// only then wait for fd().
  [[nodiscard]] Result<> arm();
  /// Readable when datagrams came after arm(); for poll(2). Owned by the endpoint.
  [[nodiscard]] int fd() const noexcept;
  [[nodiscard]] Qpn qpn() const noexcept;
  /// Receive what is sent to the group; the port must have joined it (SA) for anything to come.
  [[nodiscard]] Result<> attach(const Gid& mgid, Lid mlid);
  [[nodiscard]] Result<> detach(const Gid& mgid, Lid mlid);
  [[nodiscard]] UdCounters counters() const noexcept;

 private:
  struct State;
  explicit UdEndpoint(std::unique_ptr<State> state) noexcept;
  [[nodiscard]] Result<std::size_t> poll_with(void (*call)(void*, const Datagram&), void* callback,
                                              std::size_t max);

  std::unique_ptr<State> state_;
};

}  // namespace wireup::verbs
