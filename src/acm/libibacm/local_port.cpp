// SPDX-License-Identifier: BSD-3-Clause
#include "acm/libibacm/local_port.hpp"

#include <utility>

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

Result<verbs::PortInfo> query_port(const std::string& device, std::uint8_t port) {
  const auto opened = verbs::Device::open(device);
  if (!opened) {
    return fail(opened.error());
  }
  return opened->query_port(port);
}

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
