// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/device.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "mad/rate.hpp"
#include "verbs/gid.hpp"

namespace wireup::verbs {
namespace {

/// The device list of libibverbs for the time of one look.
class DeviceList {
 public:
  explicit DeviceList(const Ops& ops) : ops_(ops) {
    int count = 0;
    errno = 0;
    list_ = ops.get_device_list(&count);
    error_ = list_ == nullptr ? errno : 0;
    count_ = list_ == nullptr || count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ~DeviceList() {
    if (list_ != nullptr) {
      ops_.free_device_list(list_);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] ibv_device* at(std::size_t i) const noexcept { return list_[i]; }
  [[nodiscard]] const char* name(std::size_t i) const noexcept {
    const char* text = ops_.get_device_name(list_[i]);
    return text != nullptr ? text : "?";
  }
  [[nodiscard]] std::string joined_names() const {
    std::string all;
    for (std::size_t i = 0; i < count_; ++i) {
      all += all.empty() ? "" : ", ";
      all += name(i);
    }
    return all;
  }
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  const Ops& ops_;
  ibv_device** list_ = nullptr;
  std::size_t count_ = 0;
  int error_ = 0;
};

Error no_device(const DeviceList& list) {
  constexpr const char* kAdvice =
      "no RDMA device on this host (ibv_devices lists them; is the driver loaded, and is "
      "/dev/infiniband accessible?)";
  if (list.error() != 0 && list.error() != ENOSYS) {
    return Error::system(Errc::NoDevice, list.error(), "%s", kAdvice);
  }
  return Error::make(Errc::NoDevice, "%s", kAdvice);
}

const char* state_name(ibv_port_state state) noexcept {
  switch (state) {
    case IBV_PORT_NOP:
      return "NOP";
    case IBV_PORT_DOWN:
      return "DOWN";
    case IBV_PORT_INIT:
      return "INIT";
    case IBV_PORT_ARMED:
      return "ARMED";
    case IBV_PORT_ACTIVE:
      return "ACTIVE";
    case IBV_PORT_ACTIVE_DEFER:
      return "ACTIVE_DEFER";
  }
  return "UNKNOWN";
}

LinkLayer link_layer_of(std::uint8_t value) noexcept {
  switch (value) {
    case IBV_LINK_LAYER_UNSPECIFIED:  // libibverbs: older kernels report it for InfiniBand
    case IBV_LINK_LAYER_INFINIBAND:
      return LinkLayer::InfiniBand;
    case IBV_LINK_LAYER_ETHERNET:
      return LinkLayer::Ethernet;
    default:
      return LinkLayer::Other;
  }
}

/// Lanes of ibv_port_attr::active_width; 0 for a value without a meaning.
unsigned lanes_of(std::uint8_t width) noexcept {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

std::uint32_t positive(int value) noexcept {
  return value > 0 ? static_cast<std::uint32_t>(value) : 0;
}

std::uint8_t small(int value) noexcept {
  return static_cast<std::uint8_t>(std::clamp(value, 0, 255));
}

std::uint64_t from_be64(std::uint64_t value) noexcept {
  Gid::Bytes bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  return Gid(bytes).prefix();
}

}  // namespace

std::vector<std::string> Device::names(const Ops& ops) {
  const DeviceList list(ops);
  std::vector<std::string> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    result.emplace_back(list.name(i));
  }
  return result;
}

Result<Device> Device::open(std::string_view name, const Ops& ops) {
  const DeviceList list(ops);
  if (list.size() == 0) {
    return fail(no_device(list));
  }
  std::size_t index = 0;
  if (!name.empty()) {
    while (index < list.size() && name != list.name(index)) {
      ++index;
    }
    if (index == list.size()) {
      return fail(Error::make(Errc::NoDevice, "no RDMA device '%.*s'; this host has: %s",
                              static_cast<int>(name.size()), name.data(),
                              list.joined_names().c_str()));
    }
  }

  Device device;
  device.facts_ = std::make_unique<DeviceFacts>();
  device.facts_->ops = &ops;
  device.facts_->name = list.name(index);
  const char* text = device.facts_->name.c_str();
  errno = 0;
  ibv_context* raw = ops.open_device(list.at(index));
  if (raw == nullptr) {
    const int error = errno;
    return fail(
        Error::system(error == EACCES || error == EPERM ? Errc::NoPermission : Errc::NoDevice,
                      error, "opening device %s", text));
  }
  device.context_ = Handle<ibv_context>(raw, ops.close_device, "device");

  ibv_device_attr attr{};
  if (const int error = ops.query_device(raw, &attr); error != 0) {
    return fail(Error::system(Errc::NoDevice, error, "querying device %s", text));
  }
  device.facts_->node_guid = Guid(from_be64(attr.node_guid));
  device.facts_->limits = DeviceLimits{
      .max_qp = positive(attr.max_qp),
      .max_qp_wr = positive(attr.max_qp_wr),
      .max_cq = positive(attr.max_cq),
      .max_cqe = positive(attr.max_cqe),
      .max_mr = positive(attr.max_mr),
      .max_ah = positive(attr.max_ah),
      .max_qp_rd_atom = small(attr.max_qp_rd_atom),
      .max_qp_init_rd_atom = small(attr.max_qp_init_rd_atom),
      .local_ca_ack_delay = attr.local_ca_ack_delay,
      .port_count = attr.phys_port_cnt,
  };
  return device;
}

Result<PortInfo> Device::query_port(std::uint8_t port) const {
  const char* text = name().c_str();
  if (port == 0 || port > limits().port_count) {
    return fail(Error::make(Errc::NoDevice, "device %s has no port %u; its ports are 1 to %u", text,
                            static_cast<unsigned>(port),
                            static_cast<unsigned>(limits().port_count)));
  }
  ibv_port_attr attr{};
  if (const int error = ops().query_port(raw(), port, &attr); error != 0) {
    return fail(Error::system(Errc::NoDevice, error, "querying %s port %u", text,
                              static_cast<unsigned>(port)));
  }
  PortInfo info;
  info.device = name();
  info.port = port;
  info.node_guid = node_guid();
  info.lid = Lid(attr.lid);
  info.lmc = attr.lmc;
  info.sm_lid = Lid(attr.sm_lid);
  info.sm_sl = Sl(static_cast<std::uint8_t>(attr.sm_sl & Sl::kMax));
  info.active_mtu = static_cast<std::uint8_t>(attr.active_mtu);
  info.active_rate = mad::link_rate(lanes_of(attr.active_width), attr.active_speed).value_or(0);
  info.subnet_timeout = attr.subnet_timeout;
  info.active = attr.state == IBV_PORT_ACTIVE;
  info.state = state_name(attr.state);
  info.link_layer = link_layer_of(attr.link_layer);

  ibv_gid gid{};
  if (const int error = ops().query_gid(raw(), port, kIbGidIndex, &gid); error != 0) {
    return fail(Error::system(Errc::NoDevice, error, "querying GID %u of %s port %u",
                              static_cast<unsigned>(kIbGidIndex), text,
                              static_cast<unsigned>(port)));
  }
  info.gid = to_gid(gid);
  info.port_guid = info.gid.interface_id();

  for (int index = 0; index < attr.pkey_tbl_len; ++index) {
    std::uint16_t pkey = 0;
    if (const int error = ops().query_pkey(raw(), port, index, &pkey); error != 0) {
      return fail(Error::system(Errc::NoDevice, error, "querying P_Key %d of %s port %u", index,
                                text, static_cast<unsigned>(port)));
    }
    if (pkey != 0) {
      info.pkeys.resize(static_cast<std::size_t>(index) + 1);
      info.pkeys.back() = PKey(ntohs(pkey));
    }
  }
  return info;
}

}  // namespace wireup::verbs
