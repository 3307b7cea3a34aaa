// SPDX-License-Identifier: BSD-3-Clause
// Messages on the data socket between a umad client and the agent, for both ends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "softhca/umad/agent_protocol.hpp"

namespace softhca {

/// A message ready to be sent: a header with `length` set, and its data.
class UmadMessage {
 public:
  /// `data` has at most kMaxUmadData bytes.
  UmadMessage(const UmadHeader& header, std::span<const std::uint8_t> data);
  UmadMessage(UmadMessage&& other) noexcept;
  UmadMessage(const UmadMessage&) = delete;
  UmadMessage& operator=(const UmadMessage&) = delete;
  ~UmadMessage();

  /// False when there was no memory for long data (errno was set when it was made).
  [[nodiscard]] bool ok() const { return ok_; }

  /// Sends it without blocking. False with errno.
  [[nodiscard]] bool send(int fd) const;

 private:
  std::vector<std::uint8_t> bytes_;
  int file_ = -1;  // holds long data
  bool ok_ = true;
};

/// What has come in on a data socket.
struct UmadArrival {
  UmadHeader header;
  std::vector<std::uint8_t> data;
};

enum class UmadRead : std::uint8_t { Message, Nothing, End, Malformed };

/// Takes one message from a data socket without blocking. Malformed: what came is no message, or
/// its file holds less than the header says; it is gone. Nothing or End with errno when the socket
/// says why.
UmadRead read_umad(int fd, UmadArrival& arrival);

/// The header of the next message, which stays there. Same results.
UmadRead peek_umad(int fd, UmadHeader& header);

}  // namespace softhca
