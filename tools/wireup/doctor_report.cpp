// SPDX-License-Identifier: BSD-3-Clause
#include "doctor_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "record_text.hpp"

namespace wireup::tool {
namespace {

using nlohmann::ordered_json;

const char* yes_no(bool value) {
  return value ? "yes" : "no";
}

std::string pkeys_text(const std::vector<PKey>& pkeys) {
  std::string text;
  for (const PKey pkey : pkeys) {
    if (pkey.value() != 0) {
      text += (text.empty() ? "" : " ") + pkey_text(pkey);
    }
  }
  return text.empty() ? "none" : text;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

std::string sa_text(const PortFinding& port) {
  if (port.mad_fault.has_value()) {
    return fmt::format("not asked: {}", port.mad_fault->what());
  }
  if (port.sa_fault.has_value()) {
    return fmt::format("no answer: {}", port.sa_fault->what());
  }
  if (!port.sa_answers.has_value()) {
    return "not asked: the port is not ACTIVE";
  }
  return fmt::format("answers in {} us",
                     std::chrono::duration_cast<std::chrono::microseconds>(port.sa_time).count());
}

std::string joined_text(const EndpointFinding& endpoint) {
  if (!endpoint.status.has_value()) {
    return "not known: it has no address to ask by";
  }
  return *endpoint.status == acm::ClientStatus::Success
             ? "joined"
             : fmt::format("not joined ({})", acm::status_name(*endpoint.status));
}

void add_port(std::string& text, const PortFinding& port) {
  const verbs::PortInfo& info = port.info;
  text +=
      fmt::format("  {} {} LID {} (LMC {}) MTU {} rate {} Gb/s port GUID {}\n", info.name().data(),
                  info.state, info.lid.value(), info.lmc, mtu_text(info.active_mtu),
                  rate_text(info.active_rate), guid_text(info.port_guid));
  text += fmt::format("    SM LID {} SL {}; SA {}\n", info.sm_lid.value(), info.sm_sl.value(),
                      sa_text(port));
  text += fmt::format("    P_Keys {}\n", pkeys_text(info.pkeys));
  text += fmt::format("    CM carrier: {}\n",
                      port.carrier.empty() ? "not tried: the port is not ACTIVE" : port.carrier);
  for (std::size_t i = 0; i < port.gids.size(); ++i) {
    if (!port.gids[i].is_zero()) {
      text += fmt::format("    GID {} {}\n", i, to_text(port.gids[i]).data());
    }
  }
}

void add_service(std::string& text, const Findings& findings) {
  if (findings.service_fault.has_value()) {
    text += fmt::format("service at {}: {}\n", findings.socket, findings.service_fault->what());
    return;
  }
  if (!findings.service.has_value()) {
    text += fmt::format("service at {}: none\n", findings.socket);
    return;
  }
  text += fmt::format("service at {}: {}\n", findings.socket, findings.service->name());
  for (const EndpointFinding& each : findings.endpoints) {
    text +=
        fmt::format("  group of port {} P_Key {}: {}; answers for {}\n", each.endpoint.port,
                    pkey_text(each.endpoint.pkey), joined_text(each),
                    each.endpoint.addresses.empty() ? "nothing" : join(each.endpoint.addresses));
  }
}

void add_locks(std::string& text, const Findings& findings) {
  for (const acm::LockView& lock : findings.locks) {
    if (lock.is_held) {
      text += fmt::format("  {} of uid {} is the resolver of port GUID {} partition {}\n",
                          lock.is_service ? "a service" : "a rank", lock.uid,
                          guid_text(lock.port_guid), pkey_text(PKey(lock.partition)));
    }
  }
}

void add_settings(std::string& text, const Findings& findings) {
  text += fmt::format("settings (file {})\n",
                      findings.settings.file.empty() ? "none" : findings.settings.file);
  for (const settings::Spec& spec : settings::table()) {
    const settings::Value& value = findings.settings.settings.value(spec.id);
    text += fmt::format("  {} {} ({})\n", spec.name, value.text.empty() ? "-" : value.text,
                        value.place);
  }
  text += fmt::format("ACM's files: {}\n",
                      findings.acm_files.empty() ? "none" : join(findings.acm_files));
}

ordered_json error_json(const std::optional<Error>& error) {
  return error.has_value() ? ordered_json(error->what()) : ordered_json(nullptr);
}

ordered_json port_json(const PortFinding& port) {
  const verbs::PortInfo& info = port.info;
  auto pkeys = ordered_json::array();
  for (const PKey pkey : info.pkeys) {
    if (pkey.value() != 0) {
      pkeys.push_back(pkey_text(pkey));
    }
  }
  auto gids = ordered_json::array();
  for (const Gid& gid : port.gids) {
    gids.push_back(to_text(gid).data());
  }
  return {{"device", info.device},
          {"port", info.port},
          {"state", info.state},
          {"active", info.active},
          {"port_guid", guid_text(info.port_guid)},
          {"lid", info.lid.value()},
          {"lmc", info.lmc},
          {"sm_lid", info.sm_lid.value()},
          {"sm_sl", info.sm_sl.value()},
          {"mtu", mtu_text(info.active_mtu)},
          {"rate_gbps", rate_text(info.active_rate)},
          {"pkeys", std::move(pkeys)},
          {"gids", std::move(gids)},
          {"mad_device", !port.mad_fault.has_value()},
          {"mad_fault", error_json(port.mad_fault)},
          {"sa_answers",
           port.sa_answers.has_value() ? ordered_json(*port.sa_answers) : ordered_json(nullptr)},
          {"sa_fault", error_json(port.sa_fault)},
          {"cm_carrier", port.carrier}};
}

ordered_json service_json(const Findings& findings) {
  auto endpoints = ordered_json::array();
  for (const EndpointFinding& each : findings.endpoints) {
    endpoints.push_back(
        {{"device_guid", guid_text(each.endpoint.device)},
         {"port", each.endpoint.port},
         {"pkey", pkey_text(each.endpoint.pkey)},
         {"addresses", each.endpoint.addresses},
         {"joined", each.status.has_value()
                        ? ordered_json(*each.status == acm::ClientStatus::Success)
                        : ordered_json(nullptr)},
         {"status", each.status.has_value() ? ordered_json(acm::status_name(*each.status))
                                            : ordered_json(nullptr)}});
  }
  return {{"socket", findings.socket},
          {"name", findings.service.has_value() ? ordered_json(findings.service->name())
                                                : ordered_json(nullptr)},
          {"fault", error_json(findings.service_fault)},
          {"endpoints", std::move(endpoints)}};
}

ordered_json resolvers_json(const Findings& findings) {
  auto list = ordered_json::array();
  for (const acm::LockView& lock : findings.locks) {
    list.push_back({{"lock", lock.path},
                    {"uid", lock.uid},
                    {"port_guid", guid_text(lock.port_guid)},
                    {"partition", pkey_text(PKey(lock.partition))},
                    {"alive", lock.is_held},
                    {"service", lock.is_service}});
  }
  return list;
}

ordered_json settings_json(const Findings& findings) {
  ordered_json values;
  for (const settings::Spec& spec : settings::table()) {
    const settings::Value& value = findings.settings.settings.value(spec.id);
    values[std::string(spec.name)] = {{"value", value.text}, {"origin", value.place}};
  }
  return values;
}

}  // namespace

std::string doctor_text(const Findings& findings, const std::vector<Complaint>& complaints) {
  std::string text =
      fmt::format("node {}, resolver: {}\n", findings.host, tier_text(tier_of(findings)));
  add_locks(text, findings);
  add_service(text, findings);
  text += fmt::format("ports: {}\n", findings.ports.size());
  for (const PortFinding& port : findings.ports) {
    add_port(text, port);
  }
  const acm::Privileges& privileges = findings.privileges;
  text += fmt::format("this process: uid {}, CAP_NET_RAW {}, lockable memory {}\n", privileges.uid,
                      yes_no(privileges.has_net_raw),
                      privileges.memlock_limit.has_value()
                          ? fmt::format("{} KiB", *privileges.memlock_limit / 1024)
                          : "unlimited");
  text +=
      fmt::format("PMIx: library {}, {}\n", findings.has_pmix_library ? "there" : "missing",
                  findings.pmix_namespace.empty() ? "not in a job"
                                                  : fmt::format("job {}", findings.pmix_namespace));
  add_settings(text, findings);
  if (complaints.empty()) {
    text += "nothing is missing\n";
  }
  for (const Complaint& complaint : complaints) {
    text += fmt::format("{}: {}\n  to do: {}\n", complaint.is_fault ? "FAULT" : "note",
                        complaint.text, complaint.to_do);
  }
  return text;
}

ordered_json doctor_json(const Findings& findings, const std::vector<Complaint>& complaints) {
  auto ports = ordered_json::array();
  for (const PortFinding& port : findings.ports) {
    ports.push_back(port_json(port));
  }
  auto list = ordered_json::array();
  for (const Complaint& complaint : complaints) {
    list.push_back(
        {{"fault", complaint.is_fault}, {"text", complaint.text}, {"to_do", complaint.to_do}});
  }
  const acm::Privileges& privileges = findings.privileges;
  return {
      {"host", findings.host},
      {"tier", tier_name(tier_of(findings))},
      {"resolvers", resolvers_json(findings)},
      {"service", service_json(findings)},
      {"ports", std::move(ports)},
      {"process",
       {{"uid", privileges.uid},
        {"cap_net_raw", privileges.has_net_raw},
        {"memlock_bytes", privileges.memlock_limit.has_value()
                              ? ordered_json(*privileges.memlock_limit)
                              : ordered_json(nullptr)}}},
      {"pmix", {{"library", findings.has_pmix_library}, {"namespace", findings.pmix_namespace}}},
      {"settings_file", findings.settings.file},
      {"settings", settings_json(findings)},
      {"acm_files", findings.acm_files},
      {"complaints", std::move(list)}};
}

}  // namespace wireup::tool
