// SPDX-License-Identifier: BSD-3-Clause
// Reliable multi-packet transfers (IBTA vol 1, 13.6): the two ends of one message as plain values.
// Bytes and the time go in, MADs come out; nobody here owns a clock or a socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "softhca/mad/mad.hpp"

namespace softhca {

using Instant = std::chrono::steady_clock::time_point;

inline constexpr std::uint8_t kRmppTypeAck = 2;
inline constexpr std::uint8_t kRmppTypeStop = 3;
inline constexpr std::uint8_t kRmppTypeAbort = 4;

// Bytes of a MAD behind the RMPP header: what PayloadLength counts for each segment.
inline constexpr std::uint32_t kRmppData = 220;
// Segments that a receiver lets its sender have under way, as Linux with its default queue length.
inline constexpr std::uint32_t kRmppWindow = 64;
// Longest message taken: more would be a mistake or an attack.
inline constexpr std::size_t kMaxRmppMessage = std::size_t{16} << 20;

/// Where the data of a class begins; what lies before it is repeated in each segment.
std::size_t mad_data_offset(std::uint8_t mgmt_class);

/// True for the classes whose MADs carry an RMPP header.
bool class_has_rmpp(std::uint8_t mgmt_class);

/// `mad` says that it belongs to a transfer. It holds at least 36 bytes.
bool rmpp_active(std::span<const std::uint8_t> mad);

/// The sending end.
class RmppSender {
 public:
  enum class State : std::uint8_t { Sending, Done, TimedOut, Aborted };

  /// `message` is header and data as umad has them: at least mad_data_offset() bytes. `timeout`
  /// is how long to wait for an acknowledgement before sending again, `retries` how often.
  RmppSender(std::vector<std::uint8_t> message, std::chrono::milliseconds timeout,
             std::uint32_t retries);

  /// Segments that may go now are appended to `out`.
  void poll(std::vector<Mad>& out, Instant now);

  /// An ACK, STOP or ABORT from the other end.
  void handle(std::span<const std::uint8_t, kMadSize> mad, Instant now);

  void handle_timeout(Instant now);

  [[nodiscard]] State state() const { return state_; }
  /// When handle_timeout() is due; only while Sending.
  [[nodiscard]] Instant deadline() const { return deadline_; }

 private:
  [[nodiscard]] Mad segment(std::uint32_t number) const;

  std::vector<std::uint8_t> message_;
  std::size_t offset_;
  std::chrono::milliseconds timeout_;
  std::uint32_t max_retries_;
  std::uint32_t retries_;
  std::uint32_t count_;
  std::uint32_t next_ = 1;
  std::uint32_t acked_ = 0;
  std::uint32_t window_ = 1;  // the last segment that may be sent
  State state_ = State::Sending;
  Instant deadline_{};
};

/// The receiving end.
class RmppReceiver {
 public:
  /// A DATA segment. What is to be sent back, if anything.
  std::optional<Mad> handle(std::span<const std::uint8_t, kMadSize> mad);

  /// All segments are here.
  [[nodiscard]] bool complete() const { return last_ != 0 && in_order_ == last_; }

  /// The message as umad has it: the first segment's header, then the data. Once, when complete.
  std::vector<std::uint8_t> take();

 private:
  std::map<std::uint32_t, Mad> segments_;
  std::uint32_t in_order_ = 0;  // every segment up to this one is here
  std::uint32_t last_ = 0;      // number of the last segment, 0 while unknown
  std::uint32_t window_ = kRmppWindow;
};

/// The ABORT that tells the sender of `data` to give up, with one of the status codes below.
Mad make_rmpp_abort(std::span<const std::uint8_t, kMadSize> data, std::uint8_t status);
inline constexpr std::uint8_t kRmppStatusBadType = 122;
inline constexpr std::uint8_t kRmppStatusTooLong = 118;  // total time too long

}  // namespace softhca
