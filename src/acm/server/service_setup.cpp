// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/service_setup.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "acm/client/local_port.hpp"
#include "acm/files/options.hpp"
#include "acm/files/port_addresses.hpp"
#include "base/text_file.hpp"

namespace wireup::acm {
namespace {

/// The text of `named`, else of `usual` if that exists.
Result<std::optional<std::string>> read_file(const std::string& named, std::string_view usual) {
  auto text = read_text_file(named.empty() ? std::string(usual) : named);
  if (text) {
    return std::move(*text);
  }
  if (named.empty() && text.error().is(Errc::NotFound)) {
    return std::nullopt;
  }
  return fail(text.error());
}

/// What all ports have in common.
struct Common {
  Config engine;
  PreloadFiles preloads;
};

void keep(const Problems& problems, ServiceSetup& setup) {
  setup.problems.insert(setup.problems.end(), problems.first.begin(), problems.first.end());
}

/// The entry of a port and partition, made when it is new.
ServedPort::Options& port_of(ServiceSetup& setup, const std::string& device, std::uint8_t port,
                             std::optional<PKey> pkey, const Common& common) {
  const auto same =
      std::find_if(setup.ports.begin(), setup.ports.end(), [&](const ServedPort::Options& each) {
        return each.device == device && each.port == port && each.pkey == pkey;
      });
  if (same != setup.ports.end()) {
    return *same;
  }
  ServedPort::Options options;
  options.device = device;
  options.port = port;
  options.pkey = pkey;
  options.engine = common.engine;
  options.preloads = common.preloads;
  setup.ports.push_back(std::move(options));
  return setup.ports.back();
}

PreloadFiles preloads_of(const AcmOptions& options) {
  PreloadFiles files;
  if (options.route_preload == RoutePreload::OpensmFullV1) {
    files.routes = options.route_data_file.value_or(std::string(kRouteDataFile));
  }
  if (options.address_preload == AddressPreload::AcmHosts) {
    files.hosts = options.address_data_file.value_or(std::string(kAddressDataFile));
  }
  return files;
}

void add_local(ServedPort::Options& port, const Result<mad::AcmAddress>& address) {
  if (address && std::find(port.locals.begin(), port.locals.end(), *address) == port.locals.end()) {
    port.locals.push_back(*address);
  }
}

std::string short_host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) {
    return "localhost";
  }
  const std::string_view whole(name.data());
  return std::string(whole.substr(0, whole.find('.')));
}

void serve_all(ServiceSetup& setup, const Common& common) {
  const std::vector<verbs::PortInfo> found = infiniband_ports();
  auto first = std::find_if(found.begin(), found.end(),
                            [](const verbs::PortInfo& info) { return info.active; });
  first = first == found.end() ? found.begin() : first;
  const std::string host = short_host_name();
  std::size_t number = 0;
  for (auto info = found.begin(); info != found.end(); ++info) {
    ServedPort::Options& port = port_of(setup, info->device, info->port, std::nullopt, common);
    if (info == first) {
      add_local(port, mad::AcmAddress::name(host));
    }
    add_local(port, mad::AcmAddress::name(host + "-" + std::to_string(++number)));
  }
}

}  // namespace

Result<ServiceSetup> read_setup(const ServiceFiles& files) {
  ServiceSetup setup;
  const auto options_text = read_file(files.options, kOptionsFile);
  if (!options_text) {
    return fail(options_text.error());
  }
  Common common;
  // As ibacm's default. A service may ask the SA, and only the SA knows the SL and the rate of a
  // path on every fabric.
  common.engine.route_protocol = RouteProtocol::Sa;
  IpAddresses ip_addresses = IpAddresses::Refused;
  if (options_text->has_value()) {
    const auto parsed = parse_options(
        **options_text, files.options.empty() ? kOptionsFile : std::string_view(files.options));
    keep(parsed.problems, setup);
    apply(parsed.value, common.engine);
    common.preloads = preloads_of(parsed.value);
    if (parsed.value.support_ips_in_addr_cfg.value_or(false)) {
      ip_addresses = IpAddresses::Allowed;
    }
  }
  const auto addresses_text = read_file(files.addresses, kAddressFile);
  if (!addresses_text) {
    return fail(addresses_text.error());
  }
  if (!addresses_text->has_value()) {
    setup.origin = "the devices of this host";
    serve_all(setup, common);
    return setup;
  }
  setup.uses_interfaces = ip_addresses == IpAddresses::Refused;
  setup.origin = files.addresses.empty() ? std::string(kAddressFile) : files.addresses;
  const auto parsed = parse_port_addresses(**addresses_text, setup.origin, ip_addresses);
  keep(parsed.problems, setup);
  for (const PortAddress& line : parsed.value) {
    add_local(port_of(setup, line.device, line.port, line.pkey, common), line.address);
  }
  return setup;
}

}  // namespace wireup::acm
