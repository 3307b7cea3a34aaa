// SPDX-License-Identifier: BSD-3-Clause
// Paths without a connection under any sequence of calls and answers: what a user may rely on.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <vector>

#include "base/rng.hpp"
#include "conn/engine/resolutions.hpp"
#include "support/seed.hpp"

namespace wireup::conn {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t kJob = 77;
constexpr Instant kNow{seconds(1000)};
constexpr int kSteps = 20'000;
const Gid kOwnGid = Gid::make(0xFE80000000000000, Guid(1));

Config config() {
  Config result;
  result.self = {kJob, 0};
  result.job_size = 4;
  result.gid = kOwnGid;
  result.lid = Lid(10);
  result.mtu = 4;
  return result;
}

/// What the user has been told of a path.
enum class Told : std::uint8_t { Pending, Resolved, Void };

/// A user that keeps the rules, and sources of cards and paths that answer when they like.
class RandomUser {
 public:
  explicit RandomUser(std::uint64_t seed) : rng_(seed) {}

  void step() {
    switch (rng_.below(8)) {
      case 0:
      case 1:
        resolve();
        break;
      case 2:
        if (const PathId id = any(); !id.is_zero()) {
          EXPECT_EQ(paths_.fail_path(id).has_value(), told_.at(id) != Told::Pending);
        }
        break;
      case 3:
        if (const PathId id = any(); !id.is_zero() && rng_.below(4) == 0) {
          EXPECT_TRUE(paths_.forget(id));
          told_.erase(id);
          forgotten_.insert(id);
        }
        break;
      case 4:
        version_.basis += rng_.below(10) == 0 ? 1 : 0;
        version_.changes += rng_.below(2);
        paths_.handle_version(PKey(0xFFFF), version_);
        break;
      default:
        answer_one();
        break;
    }
    take_events();
  }

  /// Answers all that is open; then nothing may be pending any more.
  void settle() {
    while (!open_.empty() || take_commands()) {
      answer_one();
    }
    take_events();
    for (const auto& [id, told] : told_) {
      EXPECT_NE(told, Told::Pending) << "path " << id.value();
    }
  }
  [[nodiscard]] std::size_t resolved() const { return resolved_; }
  [[nodiscard]] std::size_t changed() const { return changed_; }

 private:
  void resolve() {
    const PeerId peer{kJob, static_cast<std::uint32_t>(rng_.below(4))};
    PathWish wish{PKey(0xFFFF), std::nullopt, ServiceId{}};
    if (rng_.below(2) == 0) {
      wish.sl = Sl(static_cast<std::uint8_t>(rng_.below(2)));
    }
    const auto id = paths_.resolve(
        peer, wish, kNow + seconds(static_cast<std::int64_t>(1 + rng_.below(5))), kNow);
    ASSERT_TRUE(id);
    EXPECT_FALSE(forgotten_.contains(*id)) << "an id is not used twice";
    take_commands();
    // Some answers are there before the call returns.
    for (auto at_once = rng_.below(3); at_once > 0; --at_once) {
      answer_one();
    }
    const auto answer = paths_.take_answer(*id);
    const auto known = told_.find(*id);
    if (known != told_.end() && known->second != Told::Void) {
      return;  // an event that an earlier call was promised, or of a change, comes all the same
    }
    if (answer.has_value() && !*answer) {
      told_.erase(*id);
      forgotten_.insert(*id);
    } else {
      told_[*id] = answer.has_value() ? Told::Resolved : Told::Pending;
    }
  }

  bool take_commands() {
    bool any = false;
    while (const auto command = paths_.poll_command()) {
      open_.push_back(*command);
      any = true;
    }
    return any;
  }

  /// An answer to any open command, in any order; good ones more often.
  void answer_one() {
    take_commands();
    if (open_.empty()) {
      return;
    }
    const auto at = open_.begin() + static_cast<std::ptrdiff_t>(rng_.below(open_.size()));
    const PathCommand command = *at;
    open_.erase(at);
    const bool good = rng_.below(4) != 0;
    if (const auto* card = std::get_if<RequestCard>(&command)) {
      const Gid gid = Gid::make(0xFE80000000000000, Guid(1 + card->peer.rank));
      paths_.handle_card(card->peer, good ? Result<Gid>(gid) : fail(Errc::CardMissing));
    } else if (const auto* find = std::get_if<FindPath>(&command)) {
      paths_.handle_path(find->id, good ? Result<KnownPath>(path_to(*find->to.as_gid()))
                                        : fail(Errc::PathUnresolved));
    } else {
      const PathId id = std::get<CheckPath>(command).id;
      const Resolution* known = paths_.find(id);
      paths_.handle_check(
          id, good && known != nullptr ? std::optional(known->path->record) : std::nullopt);
    }
    take_commands();
  }

  [[nodiscard]] KnownPath path_to(const Gid& dgid) const {
    KnownPath path;
    path.record.sgid = kOwnGid;
    path.record.dgid = dgid;
    path.record.slid = Lid(10);
    path.record.dlid = Lid(20);
    path.record.mtu = 4;
    path.version = version_;
    return path;
  }

  void take_events() {
    while (const auto event = paths_.poll_event()) {
      const PathId id = std::visit([](const auto& e) { return e.id; }, *event);
      ASSERT_TRUE(told_.contains(id)) << "an event of path " << id.value() << ", not wanted";
      if (std::holds_alternative<Resolved>(*event)) {
        EXPECT_EQ(told_.at(id), Told::Pending);
        told_[id] = Told::Resolved;
        ++resolved_;
      } else if (std::holds_alternative<Unresolved>(*event)) {
        EXPECT_EQ(told_.at(id), Told::Pending);
        told_.erase(id);
        forgotten_.insert(id);
      } else {
        EXPECT_EQ(told_.at(id), Told::Resolved);
        told_[id] = Told::Void;
        ++changed_;
      }
    }
  }

  PathId any() {
    if (told_.empty()) {
      return {};
    }
    return std::next(told_.begin(), static_cast<std::ptrdiff_t>(rng_.below(told_.size())))->first;
  }

  Rng rng_;
  Resolutions paths_{config()};
  PathVersion version_{1, 1};
  std::vector<PathCommand> open_;
  std::map<PathId, Told> told_;
  std::set<PathId> forgotten_;
  std::size_t resolved_ = 0;
  std::size_t changed_ = 0;
};

TEST(RandomResolutions, EveryPathIsToldOnceWhatBecameOfIt) {
  RandomUser user(test::seed());
  for (int step = 0; step < kSteps && !testing::Test::HasFailure(); ++step) {
    user.step();
  }
  user.settle();
  EXPECT_GT(user.resolved(), 100U);
  EXPECT_GT(user.changed(), 100U);
}

}  // namespace
}  // namespace wireup::conn
