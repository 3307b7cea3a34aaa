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

/// Where a MAD of the general services goes to, or came from: QP1 of a LID, as a rule. The fields
/// after has_grh count only with it; `gid_index` is the own GID's.
struct MadAddress {
  Lid lid;
  Sl sl;
  /// Index of the P_Key in the port's table.
  std::uint16_t pkey_index = 0;
  Qpn qpn = Qpn(mad::kGsiQpn);
  std::uint8_t path_bits = 0;
  bool has_grh = false;
  std::uint8_t gid_index = 0;
  Gid gid{};
  FlowLabel flow_label{};
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
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
    /// Methods to receive without having asked: one agent of a port can have each of a class.
    std::vector<mad::Method> unsolicited;
    /// Bytes of the longest answer that is taken.
    std::size_t largest = mad::kMadSize;
  };
  /// Errors name device and port. Errc::NoPermission: the MAD device file may not be opened.
  /// Errc::NoDevice: there is no such device or port. Errc::Busy: another agent of the port, which
  /// may be the kernel's own, has an unsolicited method. Errc::NoResources: no agent could be
  /// made.
  [[nodiscard]] static Result<Port> open(const Options& options, const Ops& ops = system_ops());

  Port(Port&& other) noexcept;
  Port& operator=(Port&& other) noexcept;
  ~Port();

  /// Sends a request. The kernel hands it back with ETIMEDOUT when no answer came in time. The
  /// high half of its transaction id is replaced: match answers by the low 32 bits.
  [[nodiscard]] Result<> send(const MadAddress& to, const mad::Mad& bytes, Duration timeout);
  /// Sends a MAD once that nothing comes back for: an answer to one that came unasked, or a message
  /// of method Send. The high half of the transaction id of the latter is replaced, too: only a
  /// method with the response bit keeps it. The error_number() of a failure is what the kernel
  /// says: EINVAL also when an earlier MAD with the same low half is still on its way out.
  [[nodiscard]] Result<> send_once(const MadAddress& to, const mad::Mad& bytes);
  /// The next MAD; nothing when none waits. Never blocks.
  [[nodiscard]] Result<std::optional<ReceivedMad>> receive();
  /// Readable when receive() has something. Owned by the port.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] const Options& options() const noexcept { return options_; }

 private:
  Port() = default;
  void close() noexcept;
  [[nodiscard]] Result<> hand_over(const MadAddress& to, const mad::Mad& bytes, int timeout_ms);
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
