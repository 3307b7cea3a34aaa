// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "mad/path_record.hpp"

namespace wireup::acm {

/// Which way the packets of a path go, seen from the port that asks.
enum class PathDirection : std::uint8_t { Outbound = 0, Inbound = 1 };

/// Paths of one key are numbered from 0, the one that a caller gets who asks for none in
/// particular.
inline constexpr std::uint8_t kMaxPathsPerPeer = 64;

/// What a path is wanted for: from a port of this node to a port of the fabric, in a partition,
/// for a service. An SL is a demand; without one the source of the path chooses.
struct PathKey {
  Gid sgid;
  Gid dgid;
  PKey pkey;
  std::optional<Sl> sl;
  ServiceId service_id;
  /// Which of the paths between the two ports: below kMaxPathsPerPeer. Several exist where ports
  /// have several LIDs (LMC).
  std::uint8_t number = 0;
  /// The record of an inbound path leads from `dgid` to `sgid`.
  PathDirection direction = PathDirection::Outbound;
  friend constexpr auto operator<=>(const PathKey&, const PathKey&) noexcept = default;
};

/// Where a path came from. The numbers are stored in the node cache.
enum class PathOrigin : std::uint8_t {
  Local = 1,
  AcmMulticast = 2,
  SaQuery = 3,
  Card = 4,
  Preloaded = 5,
  Ibacm = 6,
  Kernel = 7,
};

/// "local", "acm_multicast", "sa_query", "card", "preloaded", "ibacm", "kernel"; "unknown" for
/// another number.
[[nodiscard]] constexpr std::string_view origin_name(PathOrigin origin) noexcept {
  switch (origin) {
    case PathOrigin::Local:
      return "local";
    case PathOrigin::AcmMulticast:
      return "acm_multicast";
    case PathOrigin::SaQuery:
      return "sa_query";
    case PathOrigin::Card:
      return "card";
    case PathOrigin::Preloaded:
      return "preloaded";
    case PathOrigin::Ibacm:
      return "ibacm";
    case PathOrigin::Kernel:
      return "kernel";
  }
  return "unknown";
}

/// A path in the direction that it was asked for, with its history.
struct ResolvedPath {
  mad::PathRecord record;
  PathOrigin origin = PathOrigin::Local;
  /// Of the node's cache: another one whenever the cache was emptied (LID, SM or P_Key change, new
  /// boot, another epoch of the resolver). 0: the port's own path.
  std::uint32_t generation = 0;
  /// Time since it was learned.
  Duration age{};
  friend constexpr bool operator==(const ResolvedPath&, const ResolvedPath&) noexcept = default;
};

}  // namespace wireup::acm
