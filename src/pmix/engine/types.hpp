// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace wireup::pmix {

/// A peer by its full name. An empty namespace means the caller's own job.
struct PeerRef {
  std::string nspace;
  std::uint32_t rank = 0;

  friend bool operator==(const PeerRef&, const PeerRef&) = default;
  friend bool operator<(const PeerRef& a, const PeerRef& b) noexcept {
    return std::tie(a.nspace, a.rank) < std::tie(b.nspace, b.rank);
  }
};

/// What the launcher says about this process's job. Ranks are those of the PMIx namespace.
struct JobInfo {
  std::string nspace;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  /// Ranks of this job on this node, this one included, ascending.
  std::vector<std::uint32_t> local_peers;

  [[nodiscard]] PeerId id() const noexcept { return {hash_namespace(nspace), rank}; }
  /// The namespace of `peer` is this job's when it is left empty.
  [[nodiscard]] PeerId id_of(const PeerRef& peer) const noexcept {
    return {hash_namespace(peer.nspace.empty() ? nspace : peer.nspace), peer.rank};
  }
  friend bool operator==(const JobInfo&, const JobInfo&) = default;
};

/// The end of a lookup: the packed card (see pmix/engine/card.hpp), as published and unchecked, or
/// why there is none: CardMissing (asked until the deadline, the answer stayed "not found"),
/// Timeout (no answer came), NoPmix (the server of this node is gone), Malformed (a value of
/// another type or too large).
struct CardResult {
  PeerRef peer;  ///< the namespace is filled in, also when the request left it empty
  Result<std::vector<std::uint8_t>> card;

  friend bool operator==(const CardResult&, const CardResult&) = default;
};

/// Whether all ranks of the job have published, as far as this process knows.
enum class PublishState : std::uint8_t {
  NotPublished,  ///< publish() was not called
  Publishing,    ///< the card is not yet with the server
  Collecting,    ///< the card is out; not all ranks have published yet
  Complete,      ///< every rank has published and every card is on this node
  Partial,       ///< as Complete, but some ranks left without taking part; they have no card
  Single,        ///< published without collecting (PmixOptions::collect was false)
  Failed,        ///< put, commit or fence failed; lookups go on one by one
};

}  // namespace wireup::pmix
