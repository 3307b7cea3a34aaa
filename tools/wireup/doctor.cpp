// SPDX-License-Identifier: BSD-3-Clause
// `wireup doctor`: what this node has, what it lacks, and what to do about it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "acm/client/local_port.hpp"
#include "acm/client/node_view.hpp"
#include "acm/client/own_question.hpp"
#include "acm/client/service_view.hpp"
#include "acm/server/service_setup.hpp"
#include "base/clock.hpp"
#include "cm/driver/carrier.hpp"
#include "command.hpp"
#include "common.hpp"
#include "doctor_findings.hpp"
#include "doctor_report.hpp"

namespace wireup::tool {
namespace {

/// How long each of the service and the SA may take.
constexpr Duration kPatience = std::chrono::seconds(5);

/// Of a queue pair that nobody talks to.
constexpr QKey kQKey{1};

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

/// Asks the SA for the path from the port to itself, which every SA knows.
void ask_for_itself(PortFinding& port) {
  mad::PathRecord wanted;
  wanted.sgid = port.info.gid;
  wanted.dgid = port.info.gid;
  const auto index = port.info.usual_pkey_index();
  wanted.pkey = index.has_value() ? port.info.pkeys[*index] : PKey(0xFFFF);
  const acm::SaQuestion question = acm::question_for_sa(wanted, port.info.gid, wanted.pkey, false);
  const Instant before = monotonic_now();
  const auto answer = acm::ask_subnet(port.info, std::span(&question, 1), before + kPatience);
  port.sa_time = monotonic_now() - before;
  port.sa_answers = answer.front().has_value();
  if (!answer.front()) {
    port.sa_fault = answer.front().error();
  }
}

/// Opens what a rank would carry its CM messages with.
void try_carrier(PortFinding& port, const verbs::Device& device,
                 const settings::Settings& settings) {
  cm::Carrier::Options options;
  options.forced = cm::carrier_of(settings.cm_carrier());
  options.forced_by = settings.value(settings::Id::CmCarrier).place;
  options.ud.port = port.info.port;
  options.ud.qkey = kQKey;
  options.gsi.device = port.info.device;
  options.gsi.port = port.info.port;
  const auto carrier = cm::Carrier::open(device, options);
  port.carrier = carrier ? carrier->reason() : "none: " + std::string(carrier.error().what());
}

void look_at_ports(Findings& findings) {
  for (const verbs::PortInfo& info : acm::infiniband_ports()) {
    PortFinding port;
    port.info = info;
    if (const auto opened = acm::open_local_port(info.device, info.port)) {
      port.gids = acm::gids_of(*opened);
      if (info.active) {
        try_carrier(port, opened->device, findings.settings.settings);
      }
    }
    if (auto able = acm::try_subnet(info); !able) {
      port.mad_fault = able.error();
    } else if (info.active) {
      ask_for_itself(port);
    }
    findings.ports.push_back(std::move(port));
  }
  findings.device_faults = acm::device_faults();
}

void look_at_service(Findings& findings) {
  auto view = acm::view_service(findings.socket, monotonic_now() + kPatience);
  if (!view) {
    if (!view.error().is(Errc::NotFound)) {
      findings.service_fault = view.error();
    }
    return;
  }
  findings.service = std::move(*view);
  for (const acm::EndpointReply& endpoint : findings.service->endpoints) {
    EndpointFinding found{endpoint, std::nullopt};
    if (const auto status =
            acm::try_endpoint(findings.socket, endpoint, monotonic_now() + kPatience)) {
      found.status = *status;
    } else {
      findings.service_fault = status.error();
    }
    findings.endpoints.push_back(std::move(found));
  }
}

void look_at_files(Findings& findings) {
  for (const char* file : {"/etc/rdma/ibacm_opts.cfg", "/etc/rdma/ibacm_addr.cfg"}) {
    if (access(file, R_OK) == 0) {
      findings.acm_files.emplace_back(file);
    }
  }
  const auto setup = acm::read_setup({});
  findings.acm_file_problems = setup ? setup->problems : std::vector<Error>{setup.error()};
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

Findings gather(const CommonOptions& options) {
  Findings findings;
  findings.settings = settings::load();
  if (!options.socket.empty()) {
    if (auto set = findings.settings.settings.set(settings::Id::ServiceSocket, options.socket,
                                                  settings::Origin::Caller, "--socket");
        !set) {
      findings.settings.problems.push_back(set.error());
    }
  }
  const settings::Settings& values = findings.settings.settings;
  findings.host = host_name();
  findings.privileges = acm::privileges_of_this_process();
  findings.socket = values.service_socket();
  look_at_ports(findings);
  look_at_service(findings);
  for (const std::string& directory :
       acm::runtime_directories(values.runtime_directory(geteuid()))) {
    auto locks = acm::find_locks(directory, monotonic_now());
    findings.locks.insert(findings.locks.end(), locks.begin(), locks.end());
  }
  findings.port_file = acm::find_port_file();
  look_at_files(findings);
  findings.has_pmix_library = acm::has_library("libpmix.so.2");
  findings.pmix_namespace = variable("PMIX_NAMESPACE");
  return findings;
}

int doctor(const CommonOptions& options) {
  const Findings findings = gather(options);
  const std::vector<Complaint> complaints = diagnose(findings);
  if (options.is_json) {
    print(doctor_json(findings, complaints));
  } else {
    fmt::print("{}", doctor_text(findings, complaints));
  }
  const bool is_ill = std::any_of(complaints.begin(), complaints.end(),
                                  [](const Complaint& each) { return each.is_fault; });
  return is_ill ? kBad : kGood;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "what this node has and lacks: resolver, ports, subnet manager, settings");
  add_socket(*command, *options);
  add_json(*command, *options);
  command->callback([options, &action] { action = [options] { return doctor(*options); }; });
}

}  // namespace wireup::tool
