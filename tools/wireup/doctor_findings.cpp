// SPDX-License-Identifier: BSD-3-Clause
#include "doctor_findings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace wireup::tool {
namespace {

bool is_active(const PortFinding& port) {
  return port.info.active;
}

void diagnose_ports(const Findings& findings, std::vector<Complaint>& found) {
  for (const Error& fault : findings.device_faults) {
    found.push_back({true, std::string(fault.what()), "load its driver, or look into dmesg"});
  }
  if (findings.ports.empty()) {
    found.push_back({true, "this node has no InfiniBand port",
                     "load the adapter's driver (ibv_devinfo lists what there is)"});
    return;
  }
  const bool has_active = std::any_of(findings.ports.begin(), findings.ports.end(), is_active);
  for (const PortFinding& port : findings.ports) {
    if (!port.info.active) {
      found.push_back(
          {!has_active,
           fmt::format("{} is {}, not ACTIVE", port.info.name().data(), port.info.state),
           "start the subnet manager (OpenSM), or look at the cable"});
    } else if (port.sa_fault.has_value()) {
      found.push_back({true,
                       fmt::format("the SA does not answer on {}: {}", port.info.name().data(),
                                   port.sa_fault->what()),
                       "look whether the subnet manager runs on the port of that LID (sminfo)"});
    }
  }
}

void diagnose_service(const Findings& findings, std::vector<Complaint>& found) {
  if (findings.service_fault.has_value()) {
    found.push_back({true,
                     fmt::format("the service at {} does not work: {}", findings.socket,
                                 findings.service_fault->what()),
                     "start it again, and look into its log"});
  }
  for (const EndpointFinding& each : findings.endpoints) {
    if (each.status.has_value() && *each.status != acm::ClientStatus::Success) {
      found.push_back(
          {true,
           fmt::format("the service has endpoint {} port {} P_Key 0x{:04x}, but answers {}: {}",
                       each.endpoint.addresses.empty() ? "?" : each.endpoint.addresses.front(),
                       each.endpoint.port, each.endpoint.pkey.value(),
                       acm::status_name(*each.status), acm::status_sentence(*each.status)),
           "its port has no subnet manager, or its multicast group is not joined: look into the "
           "service's log"});
    }
  }
  if (findings.port_file.has_value()) {
    const acm::PortFile& file = *findings.port_file;
    found.push_back(
        {!file.is_answered,
         file.is_answered
             ? fmt::format("{} sends librdmacm to TCP port {} before any socket", file.path,
                           file.tcp_port)
             : fmt::format("{} is stale: it sends librdmacm to TCP port {}, where nobody listens",
                           file.path, file.tcp_port),
         file.is_answered ? "if that is not what you want: server_mode unix in ibacm_opts.cfg"
                          : fmt::format("remove {}", file.path)});
  }
}

void diagnose_resolver(const Findings& findings, std::vector<Complaint>& found) {
  const Tier tier = tier_of(findings);
  if (tier != Tier::Nobody) {
    return;
  }
  const bool may_use_mads =
      std::any_of(findings.ports.begin(), findings.ports.end(),
                  [](const PortFinding& port) { return !port.mad_fault.has_value(); });
  if (!findings.privileges.has_net_raw || !may_use_mads) {
    std::string lacks;
    if (!findings.privileges.has_net_raw) {
      lacks = "CAP_NET_RAW";
    }
    if (!may_use_mads) {
      lacks += std::string(lacks.empty() ? "" : " and ") + "access to the MAD device";
    }
    found.push_back({true,
                     fmt::format("nobody resolves paths on this node, and a process of uid {} "
                                 "cannot: it lacks {}",
                                 findings.privileges.uid, lacks),
                     "start `wireup serve` (systemctl enable --now wireup.socket) or ibacm"});
  } else {
    found.push_back({false, "no service resolves paths on this node: the first rank will",
                     "start `wireup serve` (systemctl enable --now wireup.socket) for ranks that "
                     "have fewer privileges"});
  }
}

void diagnose_process(const Findings& findings, std::vector<Complaint>& found) {
  const acm::Privileges& privileges = findings.privileges;
  if (privileges.memlock_limit.has_value() && !privileges.has_ipc_lock &&
      *privileges.memlock_limit < kWantedMemlock) {
    found.push_back({true,
                     fmt::format("only {} KiB of memory may be locked, queue pairs need it",
                                 *privileges.memlock_limit / 1024),
                     "raise it: \"* - memlock unlimited\" in /etc/security/limits.conf, and "
                     "LimitMEMLOCK=infinity for the batch system's daemon"});
  }
  if (!findings.has_pmix_library) {
    found.push_back({true, "libpmix.so.2 cannot be loaded: ranks cannot exchange their cards",
                     "install PMIx (Debian: libpmix2)"});
  }
  for (const Error& problem : findings.settings.problems) {
    found.push_back(
        {true, std::string(problem.what()), "correct it: contexts do not open with it"});
  }
  for (const Error& problem : findings.acm_file_problems) {
    found.push_back({false, std::string(problem.what()), "correct it: the line is left out"});
  }
}

}  // namespace

Tier tier_of(const Findings& findings) {
  if (findings.service.has_value() && !findings.service->endpoints.empty()) {
    return findings.service->name() == "wireup serve" ? Tier::Service : Tier::Ibacm;
  }
  const auto held = [](bool is_service) {
    return [is_service](const acm::LockView& lock) {
      return lock.is_held && lock.is_service == is_service;
    };
  };
  const auto& locks = findings.locks;
  if (std::any_of(locks.begin(), locks.end(), held(true))) {
    return Tier::Service;
  }
  return std::any_of(locks.begin(), locks.end(), held(false)) ? Tier::Rank : Tier::Nobody;
}

std::string tier_text(Tier tier) {
  switch (tier) {
    case Tier::Service:
      return "wireup serve: multicast and the SA, for ranks and ibacm's clients";
    case Tier::Ibacm:
      return "ibacm: for its clients";
    case Tier::Rank:
      return "a rank of a job: for the ranks of its user, with the privileges it has";
    case Tier::Nobody:
      break;
  }
  return "nobody yet";
}

const char* tier_name(Tier tier) {
  switch (tier) {
    case Tier::Service:
      return "service";
    case Tier::Ibacm:
      return "ibacm";
    case Tier::Rank:
      return "rank";
    case Tier::Nobody:
      break;
  }
  return "none";
}

std::vector<Complaint> diagnose(const Findings& findings) {
  std::vector<Complaint> found;
  diagnose_ports(findings, found);
  diagnose_service(findings, found);
  diagnose_resolver(findings, found);
  diagnose_process(findings, found);
  return found;
}

}  // namespace wireup::tool
