// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/header.hpp"
#include "umad/ops.hpp"

namespace wireup::umad {

/// Where a MAD of the general services goes to: QP1 of a LID.
struct MadAddress {
  Lid lid;
  Sl sl;
  /// Index of the P_Key in the port's table.
  std::uint16_t pkey_index = 0;
};

/// A MAD that the kernel handed back. `status` 0: received. ETIMEDOUT: one of ours that nobody
/// answered (the MAD is the request). EMSGSIZE: one longer than Options::largest, cut. Other errno
/// values: one of ours that could not be sent.
struct ReceivedMad {
  int status = 0;
  /// The MAD, shorter or longer than kMadSize: longer is an answer of several segments, put
  /// together by the kernel. In the port's buffer, until its next call.
  std::span<const std::uint8_t> bytes;
  /// Where it came from.
  MadAddress from;
};

/// A port of the MAD layer with one client agent of one class registered. Move-only, not
/// thread-safe.
class Port {
 public:
  struct Options {
    std::string device;
    std::uint8_t port = 1;
    mad::MgmtClass mgmt_class = mad::MgmtClass::SubnAdm;
    std::uint8_t class_version = 2;
    /// 1 where the class knows segmented answers (the SA), else 0.
    std::uint8_t rmpp_version = 1;
    /// A method to receive without having asked for it: one agent of a port can have it.
    std::optional<mad::Method> unsolicited;
    /// Bytes of the longest answer that is taken.
    std::size_t largest = mad::kMadSize;
  };
  /// Errors name device and port. Errc::NoPermission: the MAD device file may not be opened.
  /// Errc::NoDevice: there is no such device or port. Errc::NoResources: no agent could be made.
  [[nodiscard]] static Result<Port> open(const Options& options, const Ops& ops = system_ops());

  Port(Port&& other) noexcept;
  Port& operator=(Port&& other) noexcept;
  ~Port();

  /// Sends a request. The kernel hands it back with ETIMEDOUT when no answer came in time. The
  /// high half of its transaction id is replaced: match answers by the low 32 bits.
  [[nodiscard]] Result<> send(const MadAddress& to, const mad::Mad& bytes, Duration timeout);
  /// Sends an answer to a MAD that came unasked: nothing comes back.
  [[nodiscard]] Result<> respond(const MadAddress& to, const mad::Mad& bytes);
  /// The next MAD; nothing when none waits. Never blocks.
  [[nodiscard]] Result<std::optional<ReceivedMad>> receive();
  /// Readable when receive() has something. Owned by the port.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] const Options& options() const noexcept { return options_; }

 private:
  Port() = default;
  void close() noexcept;
  [[nodiscard]] Result<> post(const MadAddress& to, const mad::Mad& bytes, int timeout_ms);
  [[nodiscard]] int read_into(std::size_t capacity, int& length);

  const Ops* ops_ = nullptr;
  Options options_;
  int port_id_ = -1;
  int agent_id_ = -1;
  int fd_ = -1;
  /// The library's header and a MAD, aligned as the header wants it.
  std::vector<std::uint64_t> buffer_;
};

}  // namespace wireup::umad
