// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "conn/engine/types.hpp"
#include "mad/acm.hpp"
#include "mad/path_record.hpp"

namespace wireup::conn {

/// A path that is wanted for itself, without a connection; never used twice. 0 is none.
using PathId = Id<struct PathIdTag, std::uint64_t, 64>;

/// Where a path shall lead.
using PathTarget = std::variant<PeerId, mad::AcmAddress>;

/// What is asked of a path besides its ends.
struct PathWish {
  PKey pkey;
  /// A demand; without one the source of the path chooses.
  std::optional<Sl> sl;
  ServiceId service_id;
  friend constexpr auto operator<=>(const PathWish&, const PathWish&) noexcept = default;
};

/// What the paths of a partition rest on. Another basis: all of them are void; 0 while it is not
/// known. Another count of changes: some of them are void or others now.
struct PathVersion {
  std::uint64_t basis = 0;
  std::uint64_t changes = 0;
  friend constexpr bool operator==(const PathVersion&, const PathVersion&) noexcept = default;
};

/// A path as the source gave it.
struct KnownPath {
  mad::PathRecord record;
  /// The source's words: where it is from, and how often its node's paths had become void before.
  std::uint8_t origin = 0;
  std::uint32_t generation = 0;
  /// What it rests on, as of before it was looked up.
  PathVersion version;
  Instant learned;
  friend constexpr bool operator==(const KnownPath&, const KnownPath&) noexcept = default;
};

// Commands: as those of Engine.

/// Find a path to the address: handle_path().
struct FindPath {
  PathId id;
  mad::AcmAddress to;
  PathWish wish;
  Instant deadline;
  friend bool operator==(const FindPath&, const FindPath&) noexcept = default;
};
/// Look, without asking anybody, whether the path that was found is still the one: handle_check().
struct CheckPath {
  PathId id;
  friend bool operator==(const CheckPath&, const CheckPath&) noexcept = default;
};
using PathCommand = std::variant<RequestCard, FindPath, CheckPath>;

/// Why a path that was resolved is void. The numbers are the C API's, which follow EndReason's.
enum class PathEnd : std::uint8_t {
  None = 0,
  /// Addresses, partitions or the subnet manager changed, or another process keeps the paths now.
  FabricChanged = 5,
  /// The node has another path now, or none any more.
  Replaced = 6,
  /// The user said that it did not work.
  Failed = 7,
};

// Events. `peer` is nothing for an address.

struct Resolved {
  PathId id;
  std::optional<PeerId> peer;
  friend bool operator==(const Resolved&, const Resolved&) noexcept = default;
};
/// The path is not wanted any more, its id is of no use.
struct Unresolved {
  PathId id;
  std::optional<PeerId> peer;
  Step step = Step::None;
  Error error;
  friend bool operator==(const Unresolved&, const Unresolved&) noexcept = default;
};
/// A path that was resolved is void.
struct PathChanged {
  PathId id;
  std::optional<PeerId> peer;
  PathEnd reason = PathEnd::None;
  friend bool operator==(const PathChanged&, const PathChanged&) noexcept = default;
};
using PathEvent = std::variant<Resolved, Unresolved, PathChanged>;

/// One path that the user wants to know.
struct Resolution {
  enum class State : std::uint8_t {
    /// The peer's card, or then the path, is asked for.
    Pending = 1,
    Resolved = 2,
    /// It was resolved, and is not any more.
    Void = 3,
  };

  PathTarget target;
  PathWish wish;
  State state = State::Pending;
  Instant deadline;
  /// resolve() has not returned to the user yet, who needs no event for what happens meanwhile.
  bool in_call = false;
  /// The last one that was resolved.
  std::optional<KnownPath> path;
  friend bool operator==(const Resolution&, const Resolution&) = default;
};

/// The paths that a process wants to know without a connection, as a pure state machine: each goes
/// by the card of its peer to the path, and is watched from then on until it is given up. A value:
/// copyable and comparable. Not thread-safe.
///
/// How to drive it: as Engine; after each call take poll_command() and poll_event() until they
/// return nothing. The sources of cards and paths keep the deadlines that they are given, so there
/// is no timeout here. After resolve() and the commands that it makes, take_answer() tells what is
/// known at once.
class Resolutions {
 public:
  /// Of the configuration: who this process is, its job's size and its GID.
  explicit Resolutions(const Config& config) : config_(config) {}

  /// Wants the path. The same target and wish give the same id; a pending one's deadline is
  /// extended, a void one is found again. Errors: as check_peer().
  [[nodiscard]] Result<PathId> resolve(const PathTarget& target, const PathWish& wish,
                                       Instant deadline, Instant now);
  /// What resolve() has come to so far: nothing, when an event follows; else the path is there, or
  /// there is none and the id is of no use. An event that an earlier resolve() was promised comes
  /// all the same.
  [[nodiscard]] std::optional<Result<>> take_answer(PathId id);
  /// The path did not work: it is void. Errc::NotFound; Errc::InvalidState while it is pending.
  [[nodiscard]] Result<> fail_path(PathId id);
  /// It is not wanted any more; no event follows. Errc::NotFound.
  [[nodiscard]] Result<> forget(PathId id);

  // Answers of the driver; those for what was forgotten are ignored.

  void handle_card(const PeerId& peer, const Result<Gid>& gid);
  void handle_path(PathId id, const Result<KnownPath>& path);
  /// What a lookup finds now; nothing when it misses.
  void handle_check(PathId id, const std::optional<mad::PathRecord>& record);
  /// What the paths of a partition rest on now.
  void handle_version(PKey pkey, const PathVersion& version);
  void set_port(Lid lid, std::uint8_t lmc) noexcept;

  [[nodiscard]] std::optional<PathCommand> poll_command();
  [[nodiscard]] std::optional<PathEvent> poll_event();

  /// Null when there is none. Valid until the next call.
  [[nodiscard]] const Resolution* find(PathId id) const noexcept;
  /// Is no path wanted?
  [[nodiscard]] bool is_empty() const noexcept { return resolutions_.empty(); }

  friend bool operator==(const Resolutions&, const Resolutions&) = default;

 private:
  using Question = std::pair<PathTarget, PathWish>;

  void ask(PathId id, const Resolution& resolution);
  void give_up(PathId id, Step step, const Error& error);
  void end(PathId id, Resolution& resolution, PathEnd reason);
  void erase(PathId id);

  Config config_;
  std::uint64_t last_id_ = 0;
  std::map<PathId, Resolution> resolutions_;
  std::map<Question, PathId> by_question_;
  /// Of every card that has come: they are written once.
  std::map<PeerId, Gid> gids_;
  /// The last one that failed, which may have been within resolve().
  std::optional<std::pair<PathId, Error>> failure_;
  std::deque<PathCommand> commands_;
  std::deque<PathEvent> events_;
};

}  // namespace wireup::conn
