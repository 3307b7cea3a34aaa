// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/local_port.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "verbs/gid.hpp"

namespace wireup::acm {
namespace {

bool owns_lid(const verbs::PortInfo& info, Lid lid) noexcept {
  return lid.value() >> info.lmc == info.lid.value() >> info.lmc;
}

bool begins_at(const mad::PathRecord& path, const verbs::PortInfo& info) noexcept {
  if (path.sgid != Gid{}) {
    return path.sgid == info.gid;
  }
  if (!path.slid.is_zero()) {
    return owns_lid(info, path.slid);
  }
  return info.active && (path.dgid == Gid{} || path.dgid.prefix() == info.gid.prefix());
}

}  // namespace

Result<LocalPort> open_port_of(const mad::PathRecord& path) {
  for (const std::string& name : verbs::Device::names()) {
    auto device = verbs::Device::open(name);
    if (!device) {
      continue;  // another one may be meant
    }
    for (unsigned number = 1; number <= device->limits().port_count; ++number) {
      auto info = device->query_port(static_cast<std::uint8_t>(number));
      if (info && info->link_layer == verbs::LinkLayer::InfiniBand && begins_at(path, *info)) {
        return LocalPort{std::move(*device), std::move(*info)};
      }
    }
  }
  return fail(Error::make(Errc::NotFound,
                          "no port of this node has GID %s or LID %u, where the path begins",
                          to_text(path.sgid).data(), path.slid.value()));
}

std::vector<verbs::PortInfo> infiniband_ports() {
  std::vector<verbs::PortInfo> found;
  for (const std::string& name : verbs::Device::names()) {
    const auto device = verbs::Device::open(name);
    if (!device) {
      continue;  // the others are served all the same
    }
    for (unsigned number = 1; number <= device->limits().port_count; ++number) {
      auto info = device->query_port(static_cast<std::uint8_t>(number));
      if (info && info->link_layer == verbs::LinkLayer::InfiniBand) {
        found.push_back(std::move(*info));
      }
    }
  }
  return found;
}

std::vector<Error> device_faults() {
  std::vector<Error> faults;
  for (const std::string& name : verbs::Device::names()) {
    if (const auto device = verbs::Device::open(name); !device) {
      faults.push_back(device.error());
    }
  }
  return faults;
}

Result<LocalPort> open_local_port(const std::string& device, std::uint8_t port) {
  auto opened = verbs::Device::open(device);
  if (!opened) {
    return fail(opened.error());
  }
  auto info = opened->query_port(port);
  if (!info) {
    return fail(info.error());
  }
  return LocalPort{std::move(*opened), std::move(*info)};
}

Result<verbs::PortInfo> query_port(const std::string& device, std::uint8_t port) {
  auto opened = open_local_port(device, port);
  if (!opened) {
    return fail(opened.error());
  }
  return std::move(opened->info);
}

std::vector<Gid> gids_of(const LocalPort& port) {
  std::vector<Gid> gids;
  ibv_port_attr attr{};
  if (ibv_query_port(port.device.raw(), port.info.port, &attr) != 0) {
    return gids;
  }
  std::size_t used = 0;
  for (int i = 0; i < attr.gid_tbl_len && i < kMaxGids; ++i) {
    ibv_gid entry{};
    const bool is_known = ibv_query_gid(port.device.raw(), port.info.port, i, &entry) == 0;
    gids.push_back(is_known ? verbs::to_gid(entry) : Gid{});
    used = gids.back().is_zero() ? used : gids.size();
  }
  gids.resize(used);
  return gids;
}

Result<verbs::PortInfo> find_port(const mad::PathRecord& path) {
  auto found = open_port_of(path);
  if (!found) {
    return fail(found.error());
  }
  return std::move(found->info);
}

Result<verbs::Device> open_device(Guid guid) {
  for (const std::string& name : verbs::Device::names()) {
    auto device = verbs::Device::open(name);
    if (device && device->node_guid() == guid) {
      return device;
    }
  }
  return fail(Error::make(Errc::NoDevice, "no device of this node has GUID 0x%016llx",
                          static_cast<unsigned long long>(guid.value())));
}

}  // namespace wireup::acm
