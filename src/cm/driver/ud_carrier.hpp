// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "cm/engine/types.hpp"
#include "verbs/device.hpp"
#include "verbs/ud_endpoint.hpp"

namespace wireup::cm {

/// Carries CM messages over a UD queue pair of our own: no privilege, no kernel CM. All processes
/// of a job use one Q_Key. Not thread-safe.
class UdCarrier {
 public:
  struct Options {
    std::uint8_t port = 1;
    std::uint16_t pkey_index = 0;
    QKey qkey;
    std::uint32_t send_depth = 128;
    std::uint32_t receive_depth = 512;
    /// Messages kept while all sends are in flight; what comes on top is dropped.
    std::size_t max_waiting = 4096;
  };

  /// Errors as verbs::UdEndpoint::open. `device` must outlive the carrier.
  [[nodiscard]] static Result<UdCarrier> open(const verbs::Device& device, const Options& options);

  /// Sends the message, or keeps it until a send has finished. An error is the device's.
  [[nodiscard]] Result<> send(const Transmit& transmit);

  /// Calls `on_message(const Address& from, std::span<const std::uint8_t> bytes)` for at most `max`
  /// received datagrams; `from` is the way back as the completion and GRH tell it. The callback may
  /// call send(). Also sends what was kept. Returns the number of datagrams.
  template <typename F>
  [[nodiscard]] Result<std::size_t> poll(F&& on_message, std::size_t max) {
    auto count = endpoint_.poll(
        [&on_message](const verbs::UdDatagram& datagram) {
          on_message(source_of(datagram), datagram.bytes);
        },
        max);
    if (!waiting_.empty()) {
      if (auto done = flush(); !done) {
        return fail(done.error());
      }
    }
    return count;
  }

  /// See verbs::UdEndpoint::arm() and fd().
  [[nodiscard]] Result<> arm() { return endpoint_.arm(); }
  [[nodiscard]] int fd() const noexcept { return endpoint_.fd(); }
  [[nodiscard]] Qpn qpn() const noexcept { return endpoint_.qpn(); }
  [[nodiscard]] verbs::UdCounters counters() const noexcept { return endpoint_.counters(); }
  /// Messages that found neither a send buffer nor room to wait.
  [[nodiscard]] std::uint64_t overflows() const noexcept { return overflows_; }

 private:
  UdCarrier(verbs::UdEndpoint endpoint, const Options& options) noexcept
      : endpoint_(std::move(endpoint)), options_(options) {}
  [[nodiscard]] static Address source_of(const verbs::UdDatagram& datagram) noexcept;
  [[nodiscard]] Result<> send_now(const Transmit& transmit);
  [[nodiscard]] Result<> flush();

  verbs::UdEndpoint endpoint_;
  Options options_;
  std::deque<Transmit> waiting_;
  std::uint64_t overflows_ = 0;
};

}  // namespace wireup::cm
