// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/problems.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// Kinds of nodes whose ports are in the dump.
enum class NodeKind : std::uint8_t { ChannelAdapter, Switch, Router };

/// The port whose paths are wanted. All that a record has and the dump has not comes from here.
struct DumpedPort {
  /// GID 0: its interface id is the GUID to look for, its prefix is taken for all ports.
  Gid gid;
  Lid base_lid;
  PKey pkey;
  /// The port's SubnetTimeout, which ibacm takes for the lifetime of its packets.
  std::uint8_t packet_lifetime = 0;
  /// The port has 2^lmc LIDs. A subnet manager gives every adapter as many, so rows to the LIDs
  /// behind a base LID are further paths to its port.
  std::uint8_t lmc = 0;
};

/// The way to one LID of a port and, when the dump has it, back, between the LIDs of the same place
/// behind the ports' base LIDs. Both are reversible, with numb_path 1, and
/// MTU, rate and lifetime exact. Without service id, traffic class and QoS class.
struct DumpedPath {
  NodeKind destination = NodeKind::ChannelAdapter;
  mad::PathRecord outbound;
  std::optional<mad::PathRecord> inbound;
  friend bool operator==(const DumpedPath&, const DumpedPath&) noexcept = default;
};

struct PathDump {
  /// Ascending by DLID, the port itself included.
  std::vector<DumpedPath> paths;
  /// Ports of the fabric that the dump names.
  std::size_t ports = 0;
  /// Destinations that the subnet manager has no way to.
  std::size_t unreachable = 0;
  /// Rows of this port to LIDs that no port of the dump has, by its base LID and the LMC.
  std::size_t foreign_lids = 0;
  friend bool operator==(const PathDump&, const PathDump&) noexcept = default;
};

/// Reads OpenSM's dump of full path records, version 1 (opensm-path-records.dump), for one port: in
/// one pass the ports with their LIDs, in a second one the rows of this port and the rows of others
/// to it. Time grows with the text, memory with the number of ports. `file` is the file's name in
/// messages.
///
/// Errc::InvalidArgument for lines that are not of the format (of the rows between other ports only
/// the LID is read); Errc::NotFound when the dump does not have this port, and Errc::Stale when it
/// has it with another LID: then there are no paths.
[[nodiscard]] Parsed<PathDump> parse_path_dump(std::string_view text, std::string_view file,
                                               const DumpedPort& own);

}  // namespace wireup::acm
