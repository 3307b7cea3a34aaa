// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "acm/client/node_places.hpp"
#include "acm/driver/sa_question.hpp"
#include "acm/engine/path.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"
#include "mad/path_record.hpp"
#include "verbs/port_info.hpp"

namespace wireup::acm {

// What a process asks the fabric itself on a node without a service. Each call opens the port,
// asks, and closes it again; they block until `deadline` at most.

/// Which port of this node asks. What is not given is chosen: by the system's routes (IP
/// addresses), else the first port that is served or could be.
struct PortWish {
  std::string device;
  std::optional<std::uint8_t> port;
  std::optional<PKey> pkey;
  /// An address of the port.
  std::optional<mad::AcmAddress> source;
};

/// The port that is meant, which must be ACTIVE. Errors as verbs::open_port(), and Errc::NotFound
/// when no port has the source.
[[nodiscard]] Result<verbs::PortInfo> choose_local_port(const PortWish& wish);

/// By ACM multicast, as the node's resolver for the time of the questions, or where another process
/// is the resolver for this user, by asking that; one answer for each destination.
[[nodiscard]] std::vector<Result<ResolvedPath>> ask_fabric(
    const PortWish& wish, const NodePlaces& places, std::span<const mad::AcmAddress> destinations,
    Instant deadline);
/// The same for one destination; `source` chooses the port.
[[nodiscard]] Result<mad::PathRecord> ask_fabric(const std::optional<mad::AcmAddress>& source,
                                                 const mad::AcmAddress& destination,
                                                 Instant deadline);

/// Whether this process may ask the SA of this port. Errors as umad::Port::open().
[[nodiscard]] Result<> try_subnet(const verbs::PortInfo& port);
/// By queries to the SA of this port, a bounded number at a time; one answer for each question.
[[nodiscard]] std::vector<Result<mad::PathRecord>> ask_subnet(const verbs::PortInfo& port,
                                                              std::span<const SaQuestion> questions,
                                                              Instant deadline);
/// The port GUIDs of the subnet's switches, by the SA of this port.
[[nodiscard]] Result<std::vector<Guid>> ask_switches(const verbs::PortInfo& port, Instant deadline);
/// By a query to the SA of the port that the record's source names: what is not 0 in `path` is
/// asked for.
[[nodiscard]] Result<mad::PathRecord> ask_subnet(const mad::PathRecord& path, Instant deadline);

}  // namespace wireup::acm
