// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"
#include "cm/engine/types.hpp"
#include "mad/header.hpp"
#include "umad/ops.hpp"
#include "umad/port.hpp"

namespace wireup::cm {

/// Counts since open.
struct GsiCounters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  /// Messages that the kernel refused for good, or for longer than Options::patience.
  std::uint64_t failed = 0;
  /// Messages that the kernel did not take at once.
  std::uint64_t delayed = 0;
  /// What came that was no message to us: MADs handed back, or of another length than a MAD's.
  std::uint64_t ignored = 0;
};

/// Carries CM messages over QP1 as the kernel's connection manager does, through libibumad: it
/// talks to everybody who speaks CM on QP1, kernels included. Needs access to the MAD device, and
/// the class for itself: one process of a port can have it, and none while the kernel's ib_cm is
/// loaded. Not thread-safe.
///
/// The kernel replaces the high half of the transaction id of everything that is sent (CM messages
/// have no response bit, so it takes all for requests). So an answer repeats only the low half of
/// its request's id: match by communication ids.
class GsiCarrier {
 public:
  struct Options {
    std::string device;
    std::uint8_t port = 1;
    /// Of messages that answer none: where the port's table has their P_Key.
    std::uint16_t pkey_index = 0;
    /// Which of the port's GIDs messages with a GRH come from.
    std::uint8_t gid_index = 0;
    /// Messages kept while the kernel has no room; what comes on top is dropped.
    std::size_t max_waiting = 4096;
    /// How long a message is kept; the engine repeats what was lost.
    Duration patience = std::chrono::seconds(1);
    /// Exists where the kernel's connection manager is loaded.
    std::string kernel_cm = "/sys/module/ib_cm";
  };

  /// Errc::Busy: the class is taken; the sentence says by whom. Other errors as umad::Port::open().
  [[nodiscard]] static Result<GsiCarrier> open(const Options& options,
                                               const umad::Ops& ops = umad::system_ops());

  /// Sends the message, or keeps it until the kernel takes it. An error is the kernel's, about this
  /// message alone. `static_rate` is not used: MADs go at the port's rate.
  [[nodiscard]] Result<> send(const Transmit& transmit);

  /// Calls `on_message(const Address& from, std::span<const std::uint8_t> bytes)` for each of at
  /// most `max` MADs taken from the kernel; `from` is the way back as the kernel tells it. The
  /// callback may call send(). Also sends what was kept. Returns the number of calls.
  template <typename F>
  [[nodiscard]] Result<std::size_t> poll(F&& on_message, std::size_t max) {
    std::size_t count = 0;
    for (std::size_t taken = 0; taken < max; ++taken) {
      const auto received = port_.receive();
      if (!received) {
        return fail(received.error());
      }
      if (!received->has_value()) {
        break;
      }
      if (!is_message(**received)) {
        continue;
      }
      ++count;
      // A copy: the port's buffer is also that of sends.
      mad::Mad bytes;
      std::copy((*received)->bytes.begin(), (*received)->bytes.end(), bytes.begin());
      on_message(source_of((*received)->from), std::span<const std::uint8_t>(bytes));
    }
    flush();
    return count;
  }

  /// Nothing to do: fd() is readable as long as poll() has something to do.
  [[nodiscard]] Result<> arm() noexcept { return {}; }
  /// Owned by the carrier.
  [[nodiscard]] int fd() const noexcept { return epoll_.value(); }
  [[nodiscard]] Qpn qpn() const noexcept { return Qpn(mad::kGsiQpn); }
  [[nodiscard]] const GsiCounters& counters() const noexcept { return counters_; }
  /// Messages that found no room to wait.
  [[nodiscard]] std::uint64_t overflows() const noexcept { return overflows_; }

 private:
  struct Waiting {
    Transmit transmit;
    Instant until;
  };

  GsiCarrier(const Options& options, umad::Port port, UniqueFd epoll, UniqueFd timer) noexcept;
  [[nodiscard]] bool is_message(const umad::ReceivedMad& received) noexcept;
  [[nodiscard]] static Address source_of(const umad::MadAddress& from) noexcept;
  [[nodiscard]] Result<> send_now(const Transmit& transmit);
  void flush();
  void set_timer(long nanoseconds) noexcept;

  Options options_;
  umad::Port port_;
  UniqueFd epoll_;
  UniqueFd timer_;
  std::deque<Waiting> waiting_;
  GsiCounters counters_;
  std::uint64_t overflows_ = 0;
};

}  // namespace wireup::cm
