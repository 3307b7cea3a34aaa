// SPDX-License-Identifier: BSD-3-Clause
#include <endian.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cm/driver/gsi_carrier.hpp"
#include "cm/libibcm/log.hpp"
#include "cm/libibcm/port.hpp"
#include "verbs/gid.hpp"

namespace wireup::cm::ibcm {
namespace {

/// The order in which the tables' entries are looked at ends here, whatever a device says.
constexpr int kMaxEntries = 1024;

class GsiPort final : public Port {
 public:
  GsiPort(ibv_context* context, std::uint8_t number, const ibv_device_attr& device,
          GsiCarrier carrier)
      : context_(context),
        number_(number),
        node_guid_(be64toh(device.node_guid)),
        ack_delay_(device.local_ca_ack_delay),
        carrier_(std::move(carrier)) {}

  void send(const Transmit& transmit) override {
    if (const auto sent = carrier_.send(transmit); !sent) {
      log_line("sending", sent.error());
    }
  }
  void poll(const OnMessage& on_message, std::size_t max) override {
    if (const auto polled = carrier_.poll(on_message, max); !polled) {
      log_line("receiving", polled.error());
    }
  }
  [[nodiscard]] int fd() const noexcept override { return carrier_.fd(); }
  [[nodiscard]] std::uint8_t number() const noexcept override { return number_; }
  [[nodiscard]] Guid node_guid() const noexcept override { return node_guid_; }
  [[nodiscard]] IbTimeout ack_delay() const noexcept override { return ack_delay_; }

  [[nodiscard]] std::optional<std::uint8_t> gid_index(const Gid& gid) const override {
    const auto port = query();
    // Indexes of an address vector have eight bits.
    const int entries = port.has_value() ? std::min(port->gid_tbl_len, 256) : 0;
    for (int index = 0; index < entries; ++index) {
      ibv_gid entry{};
      if (ibv_query_gid(context_, number_, index, &entry) == 0 && verbs::to_gid(entry) == gid) {
        return static_cast<std::uint8_t>(index);
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::uint16_t> pkey_index(PKey wanted) const override {
    const auto port = query();
    const int entries = port.has_value() ? std::min<int>(port->pkey_tbl_len, kMaxEntries) : 0;
    std::optional<std::uint16_t> same_partition;
    for (int index = 0; index < entries; ++index) {
      __be16 entry = 0;
      if (ibv_query_pkey(context_, number_, index, &entry) != 0) {
        continue;
      }
      const PKey found(be16toh(entry));
      if (found == wanted && found.partition() != 0) {
        return static_cast<std::uint16_t>(index);
      }
      if (!same_partition.has_value() && found.partition() != 0 &&
          found.partition() == wanted.partition()) {
        same_partition = static_cast<std::uint16_t>(index);
      }
    }
    return same_partition;
  }

  [[nodiscard]] std::optional<std::uint8_t> path_bits(Lid lid) const override {
    const auto port = query();
    if (!port.has_value() || lid.value() < port->lid || lid.value() - port->lid >= 1 << port->lmc) {
      return std::nullopt;
    }
    return static_cast<std::uint8_t>(lid.value() - port->lid);
  }

 private:
  [[nodiscard]] std::optional<ibv_port_attr> query() const {
    ibv_port_attr port{};
    return ibv_query_port(context_, number_, &port) == 0 ? std::optional(port) : std::nullopt;
  }

  ibv_context* context_;
  std::uint8_t number_;
  Guid node_guid_;
  IbTimeout ack_delay_;
  GsiCarrier carrier_;
};

}  // namespace

Result<std::vector<std::unique_ptr<Port>>> open_ports(ibv_context* context) {
  ibv_device_attr device{};
  const std::string name = ibv_get_device_name(context->device);
  if (const int error = ibv_query_device(context, &device); error != 0) {
    return fail(Error::system(Errc::NoDevice, error, "asking %s what it is", name.c_str()));
  }
  std::vector<std::unique_ptr<Port>> ports;
  Error refusal = Error::make(Errc::NoDevice, "%s has no InfiniBand port", name.c_str());
  for (int number = 1; number <= device.phys_port_cnt; ++number) {
    ibv_port_attr port{};
    if (ibv_query_port(context, static_cast<std::uint8_t>(number), &port) != 0 ||
        port.link_layer == IBV_LINK_LAYER_ETHERNET) {
      continue;
    }
    GsiCarrier::Options options;
    options.device = name;
    options.port = static_cast<std::uint8_t>(number);
    auto carrier = GsiCarrier::open(options);
    if (!carrier) {
      refusal = carrier.error();
      log_line("opening a port", refusal);
      continue;
    }
    ports.push_back(std::make_unique<GsiPort>(context, options.port, device, std::move(*carrier)));
  }
  if (ports.empty()) {
    return fail(refusal);
  }
  return ports;
}

}  // namespace wireup::cm::ibcm
