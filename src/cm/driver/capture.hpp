// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "cm/engine/types.hpp"

namespace wireup::cm {

/// Who a capture is made by: where packets come from and go to on this side.
struct CaptureEnd {
  /// "softhca0:1".
  std::string port;
  Lid lid;
  Gid gid;
  PKey pkey;
  /// Of the carrier.
  Qpn qpn;
  QKey qkey;
  /// Of the process in its job.
  std::uint32_t rank = 0;
  std::uint32_t job_size = 1;
};

/// The file of a pattern: %r is the rank, %p the process id, %h the host's name, %% a percent sign.
/// Where several ranks would share one (neither %r nor %p in it), ".RANK" follows. Errors:
/// Errc::InvalidArgument for another character after a percent sign.
[[nodiscard]] Result<std::string> capture_file(std::string_view pattern, const CaptureEnd& end);

/// Writes the CM messages of a process to a pcapng file that tshark and Wireshark decode. Packets
/// are shown as QP1's, for only there they look for CM; the real queue pairs are in each packet's
/// comment. What a process does not see of the link is made up: virtual lane 0, packet sequence
/// numbers counted from 0 for each direction, and the hop limit of what came. Times are those at
/// which the driver handed a message to its carrier or took it from there. Every packet is in the
/// file when the call returns. Not thread-safe.
class Capture {
 public:
  /// Makes the file, or empties it; only its owner may read it, for messages carry private data.
  /// Errors: as capture_file(), and Errc::InvalidArgument with the file and the reason when it
  /// cannot be made.
  [[nodiscard]] static Result<Capture> open(std::string_view pattern, CaptureEnd end);

  void sent(const Transmit& transmit);
  void received(const Address& from, std::span<const std::uint8_t> bytes);

  /// Why writing ended before its time: a disk that is full, for one. The job goes on without.
  [[nodiscard]] const std::optional<Error>& fault() const noexcept { return fault_; }
  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  /// Packets written.
  [[nodiscard]] std::uint64_t packets() const noexcept { return sent_ + received_; }

 private:
  Capture(UniqueFd fd, std::string file, CaptureEnd end) noexcept;
  void add(const Address& peer, bool is_outbound, bool is_retransmit,
           std::span<const std::uint8_t> bytes);
  void write(std::span<const std::uint8_t> block);

  UniqueFd fd_;
  std::string file_;
  CaptureEnd end_;
  std::optional<Error> fault_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace wireup::cm
