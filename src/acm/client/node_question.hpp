// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "acm/client/own_question.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "mad/acm.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// How a process that is no rank asks its node for paths.
struct NodeQuestion {
  PortWish wish;
  /// Of the node's service.
  std::string socket;
  NodePlaces places;
  /// For each question to the service; for all others together.
  Duration timeout = std::chrono::seconds(10);
};

/// A path, and where it came from.
struct NodePath {
  mad::PathRecord record;
  /// As origin_name(); "unknown" where only the service knows.
  std::string origin;
  /// "wireup serve", "ibacm", "a rank of a job", or "this process".
  std::string answered_by;
  /// "softhca0 port 1", where it begins; empty where no port of this node has its SGID.
  std::string place;
  /// Where it is known.
  std::optional<Duration> age;
  std::optional<std::uint32_t> generation;
};

struct NodeRefusal {
  /// Which step failed: "port", "service", "resolver", "multicast" or "subnet administrator".
  std::string step;
  /// On which port, or at which socket.
  std::string place;
  Error error;
};

using NodeAnswer = tl::expected<NodePath, NodeRefusal>;

/// Asks for all destinations, one answer each, in this order: the node's service where one listens;
/// where a rank of this user's jobs is the node's resolver that one; else the fabric itself, GIDs
/// and LIDs by the SA and names and IP addresses by multicast, as the node's resolver for that time
/// (one engine a node, port and P_Key). Blocks; bounded by the timeout, for a service by the
/// timeout for each few questions.
[[nodiscard]] std::vector<NodeAnswer> ask_node(const NodeQuestion& question,
                                               std::span<const mad::AcmAddress> destinations);

}  // namespace wireup::acm
