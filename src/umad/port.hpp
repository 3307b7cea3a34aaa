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
/// answered (the MAD is the request). Other errno values: one of ours that could not be sent.
struct ReceivedMad {
  int status = 0;
  mad::Mad bytes{};
  /// Bytes that were received; fewer than a whole MAD are possible.
  std::size_t size = 0;
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
  /// The next MAD; nothing when none waits. Never blocks.
  [[nodiscard]] Result<std::optional<ReceivedMad>> receive();
  /// Readable when receive() has something. Owned by the port.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] const Options& options() const noexcept { return options_; }

 private:
  Port() = default;
  void close() noexcept;

  const Ops* ops_ = nullptr;
  Options options_;
  int port_id_ = -1;
  int agent_id_ = -1;
  int fd_ = -1;
  /// The library's header and one MAD, aligned as the header wants it.
  std::vector<std::uint64_t> buffer_;
};

}  // namespace wireup::umad
