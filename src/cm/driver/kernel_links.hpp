// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "cm/engine/types.hpp"
#include "mad/cm.hpp"
#include "rdmacm/cm_values.hpp"

namespace wireup::cm {

/// What an id of the kernel waits for.
enum class LinkPhase : std::uint8_t {
  /// Ours: the kernel's AddressResolved, RouteResolved, the peer's REP.
  Address,
  Route,
  Request,
  /// Ours: the engine's RTU.
  Answered,
  /// The peer's: the engine's REP, then the peer's RTU.
  Offered,
  Reply,
  /// Nothing: it is established.
  Established,
  /// Our DREQ is out: the peer's DREP.
  Leaving,
  /// The peer's DREQ is with the engine: its DREP.
  Left,
  /// The end of the kernel's TIMEWAIT.
  Resting,
};
/// "the address", "the route", "the REP", "the consumer", ...: what the phase waits for.
[[nodiscard]] const char* awaited(LinkPhase phase) noexcept;

/// An id of the kernel's CM and the connection of the engine that it stands for.
struct Link {
  rdmacm::IdNumber id = 0;
  LinkPhase phase = LinkPhase::Address;
  /// The engine's communication id; zero until a message of the engine has named it.
  CommId ours;
  /// The peer's, which is ours to make up; zero until there is a message of the peer.
  CommId theirs;
  /// Of the running exchange: the REQ's, later the DREQ's.
  Tid tid;
  Qpn our_qpn;
  /// Where its messages seem to come from.
  Address peer;
  Guid their_guid;
  std::optional<Instant> deadline;
  /// Our REQ, until the kernel has it.
  std::unique_ptr<mad::Req> req;
};

/// The links by their three names, and by deadline. References to links stay valid until they are
/// removed.
class LinkTable {
 public:
  Link& add(rdmacm::IdNumber id, LinkPhase phase);
  void remove(rdmacm::IdNumber id);

  [[nodiscard]] Link* find(rdmacm::IdNumber id);
  [[nodiscard]] Link* find_ours(CommId id);
  [[nodiscard]] Link* find_theirs(CommId id);

  /// The engine's id of a link; one that has a name keeps it.
  void name_ours(Link& link, CommId id);
  /// Gives the link a name for its peer's end that has not been used before (in 2^32 of them).
  void name_theirs(Link& link);
  void set_deadline(Link& link, std::optional<Instant> deadline);

  [[nodiscard]] std::optional<Instant> next_deadline() const noexcept;
  /// A link whose deadline has come.
  [[nodiscard]] Link* due(Instant now);
  [[nodiscard]] std::size_t size() const noexcept { return links_.size(); }

 private:
  std::unordered_map<rdmacm::IdNumber, Link> links_;
  std::unordered_map<CommId, rdmacm::IdNumber> by_ours_;
  std::unordered_map<CommId, rdmacm::IdNumber> by_theirs_;
  std::set<std::pair<Instant, rdmacm::IdNumber>> deadlines_;
  std::uint32_t last_name_ = 0;
};

}  // namespace wireup::cm
