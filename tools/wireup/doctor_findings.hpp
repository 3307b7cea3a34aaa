// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acm/client/local_port.hpp"
#include "acm/client/node_view.hpp"
#include "acm/client/service_view.hpp"
#include "base/error.hpp"
#include "settings/settings.hpp"

namespace wireup::tool {

// What `wireup doctor` gathers, and what it concludes. The conclusions are pure.

/// A port of this node.
struct PortFinding {
  verbs::PortInfo info;
  std::vector<Gid> gids;
  /// This process may use the MAD device; else why not.
  std::optional<Error> mad_fault;
  /// The SA answered; nothing: it was not asked. Else why not.
  std::optional<bool> sa_answers;
  std::optional<Error> sa_fault;
  Duration sa_time{};
  /// What would carry a rank's CM messages, and why, or why nothing can; empty: not tried.
  std::string carrier;
};

/// An endpoint of the node's service, and how it answered for itself.
struct EndpointFinding {
  acm::EndpointReply endpoint;
  /// Nothing: it could not be asked.
  std::optional<acm::ClientStatus> status;
};

struct Findings {
  std::string host;
  acm::Privileges privileges;
  std::vector<PortFinding> ports;
  /// Devices that cannot be opened.
  std::vector<Error> device_faults;

  std::string socket;
  /// Nothing: nobody listens there, or `service_fault`.
  std::optional<acm::ServiceView> service;
  std::optional<Error> service_fault;
  std::vector<EndpointFinding> endpoints;

  std::vector<acm::LockView> locks;
  std::optional<acm::PortFile> port_file;

  settings::Loaded settings;
  /// ibacm's files: which were read, and what was wrong in them.
  std::vector<std::string> acm_files;
  std::vector<Error> acm_file_problems;

  bool has_pmix_library = false;
  /// Empty: not started by a launcher with PMIx.
  std::string pmix_namespace;
};

/// Who resolves for the ranks of this node, best first.
enum class Tier : std::uint8_t { Service, Ibacm, Rank, Nobody };
[[nodiscard]] Tier tier_of(const Findings& findings);
/// "wireup serve, ...", for people.
[[nodiscard]] std::string tier_text(Tier tier);
/// "service", "ibacm", "rank", "none".
[[nodiscard]] const char* tier_name(Tier tier);

/// Bytes of locked memory that a resolver's queues and a few connections need.
inline constexpr std::uint64_t kWantedMemlock = 64ULL << 20U;

/// Something that keeps paths or connections from working, or will.
struct Complaint {
  /// False: it works without, but less well or not for everybody.
  bool is_fault = true;
  std::string text;
  std::string to_do;
};
[[nodiscard]] std::vector<Complaint> diagnose(const Findings& findings);

}  // namespace wireup::tool
