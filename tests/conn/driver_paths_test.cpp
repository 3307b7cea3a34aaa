// SPDX-License-Identifier: BSD-3-Clause
// Paths without a connection, on the emulated adapter.
#include <poll.h>

#include "base/clock.hpp"
#include "conn/driver_rig.hpp"

namespace wireup::conn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(DriverRig, AKnownPathIsThereAtOnce) {
  open(2);
  const auto first = drivers[0]->resolve(peer(1), {}, seconds(10));
  ASSERT_TRUE(first) << first.error().what();
  ASSERT_EQ(first->resolution.state, Resolution::State::Resolved);
  const mad::PathRecord& record = first->resolution.path->record;
  EXPECT_EQ(first->to.dlid, record.dlid);
  EXPECT_EQ(first->to.path_bits, 0);
  EXPECT_FALSE(first->to.has_grh);
  EXPECT_EQ(first->port, 1);
  EXPECT_EQ(first->pkey_index, 0);
  EXPECT_EQ(first->resolution.path->generation, 7U);
  EXPECT_FALSE(drivers[0]->poll_event().has_value()) << "no event for what was answered";
  EXPECT_EQ(drivers[0]->stats().queue_pairs, drivers[1]->stats().queue_pairs)
      << "no queue pair was made for it";

  paths[0]->hop_limit = 64;
  const auto routed =
      drivers[0]->resolve(peer(1), {std::nullopt, Sl(3), ServiceId(5)}, seconds(10));
  ASSERT_TRUE(routed);
  EXPECT_NE(routed->id, first->id);
  EXPECT_EQ(routed->to.sl, Sl(3));
  EXPECT_TRUE(routed->to.has_grh);
  EXPECT_EQ(drivers[0]->path(routed->id)->resolution, routed->resolution);
}

TEST_F(DriverRig, APathThatHasToBeAskedForComesWithAnEvent) {
  open(2);
  paths[0]->is_cached = false;
  const auto asked = drivers[0]->resolve(peer(1), {}, seconds(10));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->resolution.state, Resolution::State::Pending);
  ASSERT_EQ(paths[0]->asked.size(), 1U);
  // A connection to the same rank and the path for itself wait for one answer.
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(10)));
  const acm::RankQuestion question = paths[0]->asked.front();
  paths[0]->answer(question, paths[0]->path_for(question.key));
  const UserEvent event = next_event(0);
  ASSERT_TRUE(std::holds_alternative<Resolved>(event.event));
  EXPECT_EQ(std::get<Resolved>(event.event).id, asked->id);
  EXPECT_EQ(std::get<Resolved>(event.event).peer, peer(1));
  EXPECT_TRUE(std::holds_alternative<Connected>(next_event(0).event));

  const auto refused = drivers[0]->resolve(peer(1), {std::nullopt, Sl(9), {}}, seconds(10));
  ASSERT_TRUE(refused);
  const acm::RankQuestion strict = paths[0]->asked.back();
  EXPECT_EQ(strict.key.sl, Sl(9));
  paths[0]->answer(strict, fail(Error::make(Errc::PathUnresolved, "no path with SL 9")));
  const auto failed = std::get<Unresolved>(next_event(0).event);
  EXPECT_EQ(failed.id, refused->id);
  EXPECT_EQ(failed.step, Step::Path);
  EXPECT_TRUE(drivers[0]->path(refused->id).error().is(Errc::NotFound));
}

TEST_F(DriverRig, WhatFailsAtOnceIsTheAnswer) {
  open(2);
  paths[0]->is_cached = false;
  paths[0]->refusal = Error::make(Errc::NoDevice, "the port is gone");
  // The card was here before, so that nothing has to be waited for.
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(10)));
  EXPECT_TRUE(std::holds_alternative<Failed>(next_event(0).event));
  EXPECT_TRUE(drivers[0]->resolve(peer(1), {}, seconds(10)).error().is(Errc::NoDevice));
  EXPECT_TRUE(drivers[0]->resolve(peer(2), {}, seconds(10)).error().is(Errc::InvalidArgument));
  EXPECT_TRUE(drivers[0]
                  ->resolve(peer(1), {PKey(0x8055), std::nullopt, {}}, seconds(10))
                  .error()
                  .is(Errc::InvalidArgument));
  EXPECT_FALSE(drivers[0]->poll_event().has_value());
}

TEST_F(DriverRig, AMissingCardIsTheFirstStepToFail) {
  auto port = verbs::open_port({});
  ASSERT_TRUE(port);
  // Of three ranks, two have not opened a context.
  Parts parts{std::move(*port), std::make_unique<BoardExchange>(board, 0, 3), nullptr};
  parts.paths = std::make_unique<OwnPortPaths>(parts.port.info);
  auto lonely = Driver::open(std::move(parts), {});
  ASSERT_TRUE(lonely);
  const auto asked =
      (*lonely)->resolve(PeerId{(*lonely)->job().id().job, 2}, {}, milliseconds(200));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->resolution.state, Resolution::State::Pending);
  const auto came = (*lonely)->wait(seconds(10));
  ASSERT_TRUE(came && *came);
  const auto event = (*lonely)->poll_event();
  const auto failed = std::get<Unresolved>(event->event);
  EXPECT_EQ(failed.step, Step::Card);
  EXPECT_TRUE(failed.error.is(Errc::CardMissing));
}

TEST_F(DriverRig, AChangeOfTheFabricIsToldToWhoeverWaits) {
  open(2);
  const auto path = drivers[0]->resolve(peer(1), {}, seconds(10));
  ASSERT_TRUE(path);
  const int port_changes = paths[0]->port_changes;
  paths[0]->now.generation = 8;
  const auto came = drivers[0]->wait(seconds(10));
  ASSERT_TRUE(came && *came);
  const auto changed = std::get<PathChanged>(drivers[0]->poll_event()->event);
  EXPECT_EQ(changed.id, path->id);
  EXPECT_EQ(changed.reason, PathEnd::FabricChanged);
  EXPECT_GT(paths[0]->port_changes, port_changes) << "the port was asked again";
  EXPECT_EQ(drivers[0]->path(path->id)->resolution.state, Resolution::State::Void);
  const auto again = drivers[0]->resolve(peer(1), {}, seconds(10));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->id, path->id);
  EXPECT_EQ(again->resolution.state, Resolution::State::Resolved);
  EXPECT_EQ(again->resolution.path->generation, 8U);

  // What is void by the time of the call is no answer, whoever has not yet looked.
  paths[0]->now.generation = 9;
  EXPECT_EQ(drivers[0]->resolve(peer(1), {}, seconds(10))->resolution.path->generation, 9U);
}

TEST_F(DriverRig, ARemovedPathIsNoticed) {
  open(2);
  const auto path = drivers[0]->resolve(peer(1), {}, seconds(10));
  ASSERT_TRUE(path);
  ++paths[0]->now.changes;
  ASSERT_TRUE(drivers[0]->wait(milliseconds(10)));
  EXPECT_FALSE(drivers[0]->poll_event().has_value()) << "the change was another's";
  ++paths[0]->now.changes;
  paths[0]->is_cached = false;
  const auto came = drivers[0]->wait(seconds(10));
  ASSERT_TRUE(came && *came);
  EXPECT_EQ(std::get<PathChanged>(drivers[0]->poll_event()->event).reason, PathEnd::Replaced);
}

TEST_F(DriverRig, AFailedPathIsToldToTheNode) {
  open(2);
  const auto path = drivers[0]->resolve(peer(1), {}, seconds(10));
  ASSERT_TRUE(path);
  ASSERT_TRUE(drivers[0]->fail_path(path->id));
  ASSERT_EQ(paths[0]->failed.size(), 1U);
  EXPECT_EQ(paths[0]->failed.front().dgid, path->resolution.path->record.dgid);
  EXPECT_EQ(std::get<PathChanged>(next_event(0).event).reason, PathEnd::Failed);
  ASSERT_TRUE(drivers[0]->fail_path(path->id));
  EXPECT_EQ(paths[0]->failed.size(), 1U) << "once";

  ASSERT_TRUE(drivers[0]->resolve(peer(1), {}, seconds(10)));
  ASSERT_TRUE(drivers[0]->fail_path(path->id));
  ASSERT_TRUE(drivers[0]->forget_path(path->id));
  EXPECT_FALSE(drivers[0]->poll_event().has_value()) << "no event of what is not wanted";
  EXPECT_TRUE(drivers[0]->forget_path(path->id).error().is(Errc::NotFound));
  EXPECT_TRUE(drivers[0]->fail_path(path->id).error().is(Errc::NotFound));
}

TEST_F(DriverRig, TheCardIsTheLastResortForPathsToo) {
  open(2);
  paths[0]->is_cached = false;
  paths[0]->refusal = Error::make(Errc::NoPermission, "nobody may ask");
  const auto path = drivers[0]->resolve(peer(1), {}, seconds(10));
  ASSERT_TRUE(path) << path.error().what();
  ASSERT_EQ(path->resolution.state, Resolution::State::Resolved);
  EXPECT_EQ(static_cast<acm::PathOrigin>(path->resolution.path->origin), acm::PathOrigin::Card);
  EXPECT_EQ(drivers[0]->stats().driver.paths_from_cards, 1U);
  // No cache has it, so that what the cache lacks says nothing of it.
  ++paths[0]->now.changes;
  ASSERT_TRUE(drivers[0]->wait(milliseconds(10)));
  EXPECT_FALSE(drivers[0]->poll_event().has_value());
  ++paths[0]->now.generation;
  const auto came = drivers[0]->wait(seconds(10));
  ASSERT_TRUE(came && *came);
  EXPECT_EQ(std::get<PathChanged>(drivers[0]->poll_event()->event).reason, PathEnd::FabricChanged);
  // A card does not say which SLs there are.
  EXPECT_TRUE(drivers[0]
                  ->resolve(peer(1), {std::nullopt, Sl(3), {}}, seconds(10))
                  .error()
                  .is(Errc::NoPermission));
}

TEST_F(DriverRig, AddressesNeedNoCard) {
  open(1);
  const verbs::PortInfo port = verbs::open_port({})->info;
  const auto path = drivers[0]->resolve(mad::AcmAddress::gid(port.gid), {}, seconds(10));
  ASSERT_TRUE(path) << path.error().what();
  EXPECT_EQ(path->to.dlid, port.lid);

  // A name is for the resolver to know, whatever is cached; its answer tells the GID.
  const mad::AcmAddress name = *mad::AcmAddress::name("node7");
  const auto named = drivers[0]->resolve(name, {}, seconds(10));
  ASSERT_TRUE(named);
  EXPECT_EQ(named->resolution.state, Resolution::State::Pending);
  ASSERT_EQ(paths[0]->asked.size(), 1U);
  const acm::RankQuestion question = paths[0]->asked.front();
  EXPECT_EQ(question.address, name);
  EXPECT_TRUE(question.key.dgid.is_zero());
  acm::PathKey known = question.key;
  known.dgid = port.gid;
  paths[0]->answer(question, paths[0]->path_for(known));
  const auto resolved = std::get<Resolved>(next_event(0).event);
  EXPECT_EQ(resolved.id, named->id);
  EXPECT_FALSE(resolved.peer.has_value());
  ASSERT_TRUE(drivers[0]->fail_path(named->id));
  ASSERT_EQ(paths[0]->failed.size(), 1U);
  EXPECT_EQ(paths[0]->failed.front().dgid, port.gid) << "as the path told";
  EXPECT_EQ(drivers[0]->stats().driver.cards_requested, 0U);
}

}  // namespace
}  // namespace wireup::conn
