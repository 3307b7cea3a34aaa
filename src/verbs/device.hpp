// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "verbs/handle.hpp"
#include "verbs/ops.hpp"
#include "verbs/port_info.hpp"

namespace wireup::verbs {

/// Limits of a device that we clamp our requests to.
struct DeviceLimits {
  std::uint32_t max_qp = 0;
  std::uint32_t max_qp_wr = 0;
  std::uint32_t max_cq = 0;
  std::uint32_t max_cqe = 0;
  std::uint32_t max_mr = 0;
  std::uint32_t max_ah = 0;
  std::uint8_t max_qp_rd_atom = 0;
  std::uint8_t max_qp_init_rd_atom = 0;
  std::uint8_t local_ca_ack_delay = 0;
  std::uint8_t port_count = 0;
};

/// What is known of an open device. Its address stays while the device is open, also when the
/// Device is moved, so the objects made from the device refer to it.
struct DeviceFacts {
  const Ops* ops = nullptr;
  std::string name;
  Guid node_guid;
  DeviceLimits limits;
};

/// An open RDMA device. Move-only; every object made from it must die before it. The calls of
/// libibverbs on it are thread-safe.
class Device {
 public:
  /// Names of all devices of this host, in the library's order; empty when there is none.
  [[nodiscard]] static std::vector<std::string> names(const Ops& ops = system_ops());

  /// Opens the device called `name`, or the first one when `name` is empty.
  /// Errc::NoDevice when there is none or none of that name: the message lists those there are.
  [[nodiscard]] static Result<Device> open(std::string_view name, const Ops& ops = system_ops());

  /// Asks the port; `port` counts from 1. Errc::NoDevice when the device has no such port.
  [[nodiscard]] Result<PortInfo> query_port(std::uint8_t port) const;

  [[nodiscard]] const DeviceFacts& facts() const noexcept { return *facts_; }
  [[nodiscard]] const std::string& name() const noexcept { return facts_->name; }
  [[nodiscard]] Guid node_guid() const noexcept { return facts_->node_guid; }
  [[nodiscard]] const DeviceLimits& limits() const noexcept { return facts_->limits; }
  [[nodiscard]] const Ops& ops() const noexcept { return *facts_->ops; }
  [[nodiscard]] ibv_context* raw() const noexcept { return context_.raw(); }

 private:
  Device() = default;

  std::unique_ptr<DeviceFacts> facts_;
  Handle<ibv_context> context_;
};

/// A device with the port of it that was chosen.
struct OpenPort {
  Device device;
  PortInfo info;
};

/// The user's wish for a port: "name", "name:port", or "" for any.
struct PortSelector {
  std::string device;
  std::optional<std::uint8_t> port;
  /// Errc::InvalidArgument when `text` is not of that form.
  [[nodiscard]] static Result<PortSelector> parse(std::string_view text);
};

/// Opens the port to use. With a named device that port (or its first ACTIVE one), which must be
/// ACTIVE. Without, the first ACTIVE InfiniBand port, those near to the CPUs of this process
/// first (hwloc). Errc::NoDevice: no device, or no such name or port. Errc::NoSubnetManager: the
/// port is not ACTIVE; the message names it and its state.
[[nodiscard]] Result<OpenPort> open_port(const PortSelector& selector,
                                         const Ops& ops = system_ops());

}  // namespace wireup::verbs
