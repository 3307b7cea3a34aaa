// SPDX-License-Identifier: BSD-3-Clause
// Which port of this host to use.
#include <hwloc.h>
#include <hwloc/openfabrics-verbs.h>

#include <charconv>
#include <memory>

#include "verbs/device.hpp"

namespace wireup::verbs {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology_t topology) const noexcept { hwloc_topology_destroy(topology); }
};
struct BitmapDeleter {
  void operator()(hwloc_bitmap_t bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

/// Tells whether a device sits at the CPUs this process may run on. Loading the topology costs
/// milliseconds, so it is made only when there is a choice.
class Locality {
 public:
  Locality() {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) {
      return;
    }
    Topology topology(raw);
    if (hwloc_topology_load(raw) != 0) {
      return;
    }
    Bitmap bound(hwloc_bitmap_alloc());
    if (bound && hwloc_get_cpubind(raw, bound.get(), HWLOC_CPUBIND_PROCESS) == 0) {
      topology_ = std::move(topology);
      bound_ = std::move(bound);
    }
  }

  /// False also when the place of the device is not known.
  [[nodiscard]] bool is_near(ibv_context* context) const {
    if (!topology_) {
      return false;
    }
    const Bitmap cpus(hwloc_bitmap_alloc());
    return cpus && hwloc_ibv_get_device_cpuset(topology_.get(), context->device, cpus.get()) == 0 &&
           hwloc_bitmap_intersects(cpus.get(), bound_.get()) != 0;
  }

 private:
  Topology topology_;
  Bitmap bound_;
};

Error not_active(const PortInfo& info) {
  return Error::make(Errc::NoSubnetManager,
                     "%s is %s, not ACTIVE: no subnet manager has configured it (is OpenSM "
                     "running on this fabric? is the cable in?)",
                     info.name().data(), info.state);
}

Error not_infiniband(const PortInfo& info) {
  return Error::make(Errc::Unsupported, "%s is not an InfiniBand port; wireup needs one",
                     info.name().data());
}

bool is_usable(const PortInfo& info) noexcept {
  return info.active && info.link_layer == LinkLayer::InfiniBand && !info.lid.is_zero();
}

/// The named port, or the first usable one of the device. The error tells of the first port when
/// none is usable.
Result<OpenPort> open_port_of(std::string_view name, std::optional<std::uint8_t> wanted,
                              const Ops& ops) {
  auto device = Device::open(name, ops);
  if (!device) {
    return fail(device.error());
  }
  const std::uint8_t first = wanted.value_or(1);
  const std::uint8_t last = wanted.value_or(device->limits().port_count);
  std::optional<Error> problem;
  for (unsigned port = first; port <= last; ++port) {
    auto info = device->query_port(static_cast<std::uint8_t>(port));
    if (!info) {
      return fail(info.error());
    }
    if (is_usable(*info)) {
      return OpenPort{std::move(*device), std::move(*info)};
    }
    if (!problem.has_value()) {
      problem =
          info->link_layer == LinkLayer::InfiniBand ? not_active(*info) : not_infiniband(*info);
    }
  }
  return fail(problem.value_or(
      Error::make(Errc::NoDevice, "device %s has no ports", device->name().c_str())));
}

}  // namespace

Result<PortSelector> PortSelector::parse(std::string_view text) {
  PortSelector selector;
  const std::size_t colon = text.rfind(':');
  selector.device = std::string(text.substr(0, colon));
  if (colon == std::string_view::npos) {
    return selector;
  }
  const std::string_view digits = text.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || port == 0 || port > 255 ||
      selector.device.empty()) {
    return fail(Error::make(Errc::InvalidArgument,
                            "'%.*s' does not name a port: write device or device:port, the port "
                            "from 1 to 255",
                            static_cast<int>(text.size()), text.data()));
  }
  selector.port = static_cast<std::uint8_t>(port);
  return selector;
}

Result<OpenPort> open_port(const PortSelector& selector, const Ops& ops) {
  if (!selector.device.empty()) {
    return open_port_of(selector.device, selector.port, ops);
  }
  const std::vector<std::string> names = Device::names(ops);
  std::vector<OpenPort> usable;
  std::optional<Error> problem;
  for (const std::string& name : names) {
    auto opened = open_port_of(name, std::nullopt, ops);
    if (opened) {
      usable.push_back(std::move(*opened));
    } else if (!problem.has_value()) {
      problem = opened.error();
    }
  }
  if (usable.empty()) {
    if (problem.has_value()) {
      return fail(*problem);
    }
    return open_port_of("", std::nullopt, ops);  // the error of a host without devices
  }
  std::size_t chosen = 0;
  if (usable.size() > 1) {
    const Locality locality;
    while (chosen < usable.size() && !locality.is_near(usable[chosen].device.raw())) {
      ++chosen;
    }
    chosen = chosen < usable.size() ? chosen : 0;
  }
  return std::move(usable[chosen]);
}

}  // namespace wireup::verbs
