// SPDX-License-Identifier: BSD-3-Clause
// Connections whose path nobody on the node can tell.
#include "conn/driver/card_path.hpp"

#include "base/clock.hpp"
#include "conn/driver_rig.hpp"

namespace wireup::conn {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t kPrefix = 0xFE80000000000000;

verbs::PortInfo own_port() {
  verbs::PortInfo port;
  port.device = "softhca0";
  port.port = 1;
  port.gid = Gid::make(kPrefix, Guid(0x101));
  port.lid = Lid(4);
  port.active_mtu = 5;
  port.active_rate = 16;
  port.subnet_timeout = 18;
  return port;
}

pmix::CardPort peer_port() {
  pmix::CardPort port;
  port.gid = Gid::make(kPrefix, Guid(0x201));
  port.lid = Lid(9);
  port.pkey = PKey(0xFFFF);
  port.mtu = 4;
  port.rate = 7;
  return port;
}

TEST(CardPath, TakesWhatBothEndsCanDo) {
  const auto record = path_from_card(own_port(), PKey(0x7FFF), peer_port());
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->sgid, own_port().gid);
  EXPECT_EQ(record->dgid, peer_port().gid);
  EXPECT_EQ(record->slid, Lid(4));
  EXPECT_EQ(record->dlid, Lid(9));
  EXPECT_EQ(record->pkey, PKey(0x7FFF)) << "as our table has it";
  EXPECT_EQ(record->sl, Sl(0));
  EXPECT_EQ(record->mtu, 4) << "2048 bytes, of 4096 and 2048";
  EXPECT_EQ(record->rate, 7) << "40 Gb/s, of 100 and 40";
  EXPECT_EQ(record->packet_lifetime, 18);
  EXPECT_EQ(record->hop_limit, 0) << "no GRH within a subnet";
}

TEST(CardPath, KnowsWhatACardCannotSay) {
  pmix::CardPort peer = peer_port();
  peer.gid = Gid::make(kPrefix + 1, Guid(0x201));
  EXPECT_TRUE(path_from_card(own_port(), PKey(0xFFFF), peer).error().is(Errc::PathUnresolved));
  peer = peer_port();
  peer.lid = Lid();
  EXPECT_FALSE(path_from_card(own_port(), PKey(0xFFFF), peer).has_value());
  peer = peer_port();
  EXPECT_FALSE(path_from_card(own_port(), PKey(0x8001), peer).has_value());
  peer.pkey = PKey(0x7FFF);
  EXPECT_FALSE(path_from_card(own_port(), PKey(0x7FFF), peer).has_value()) << "both are limited";
  EXPECT_TRUE(path_from_card(own_port(), PKey(0xFFFF), peer).has_value());
  verbs::PortInfo roce = own_port();
  roce.lid = Lid();
  EXPECT_FALSE(path_from_card(roce, PKey(0xFFFF), peer).has_value());
}

class CardPaths : public DriverRig {
 protected:
  /// Ranks from `first` on find no path.
  void open_without_paths(const Error& why, std::uint32_t first = 0, bool is_silent = false,
                          bool card_paths = true) {
    make_paths = [=](std::uint32_t rank,
                     const verbs::PortInfo& port) -> std::unique_ptr<PathSource> {
      if (rank < first) {
        return std::make_unique<OwnPortPaths>(port);
      }
      return std::make_unique<NoPaths>(why, is_silent);
    };
    Options options;
    options.card_paths = card_paths;
    open(2, options);
  }
  [[nodiscard]] acm::PathOrigin origin(std::uint32_t rank, std::uint32_t other) {
    const auto connection = drivers[rank]->connection(peer(other));
    EXPECT_TRUE(connection.has_value());
    return connection.has_value() ? static_cast<acm::PathOrigin>(connection->path->origin)
                                  : acm::PathOrigin{};
  }
};

TEST_F(CardPaths, AreTheLastResort) {
  open_without_paths(Error::make(Errc::NoPermission, "nobody may ask"));
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(20)));
  for (const std::uint32_t rank : {0U, 1U}) {
    const UserEvent event = next_event(rank);
    ASSERT_TRUE(std::holds_alternative<Connected>(event.event));
    ASSERT_TRUE(event.card_path_reason.has_value());
    EXPECT_EQ(event.card_path_reason->what(), "nobody may ask");
    EXPECT_EQ(origin(rank, 1 - rank), acm::PathOrigin::Card);
    EXPECT_EQ(drivers[rank]->stats().driver.paths_from_cards, 1U);
  }
}

TEST_F(CardPaths, AreOfOneSideOnlyWhereTheOtherHasABetterOne) {
  open_without_paths(Error::make(Errc::PathUnresolved, "silence"), 1);
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(20)));
  EXPECT_FALSE(next_event(0).card_path_reason.has_value());
  EXPECT_TRUE(next_event(1).card_path_reason.has_value());
  EXPECT_NE(origin(0, 1), acm::PathOrigin::Card);
  EXPECT_EQ(origin(1, 0), acm::PathOrigin::Card);
}

TEST_F(CardPaths, WaitForTheResolverHalfOfTheTime) {
  make_paths = [](std::uint32_t rank, const verbs::PortInfo& port) -> std::unique_ptr<PathSource> {
    if (rank == 1) {
      return std::make_unique<OwnPortPaths>(port);
    }
    return std::make_unique<NoPaths>(Error::make(Errc::Timeout, "no answer"), true);
  };
  open(2);
  const Instant start = monotonic_now();
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(6)));
  const UserEvent event = next_event(0);
  EXPECT_GE(monotonic_now() - start, seconds(3));
  ASSERT_TRUE(std::holds_alternative<Connected>(event.event));
  EXPECT_TRUE(event.card_path_reason.has_value());
}

TEST_F(CardPaths, AreNotMadeWhereThePolicyHasNone) {
  open_without_paths(Error::make(Errc::PathUnresolved, "silence"), 0, false, false);
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(20)));
  const UserEvent event = next_event(0);
  const auto* failed = std::get_if<Failed>(&event.event);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->step, Step::Path);
  EXPECT_EQ(failed->error.what(), "silence");
  EXPECT_FALSE(event.card_path_reason.has_value());
}

TEST_F(CardPaths, DoNotHelpAgainstEveryError) {
  open_without_paths(Error::make(Errc::NoDevice, "the port is gone"));
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(20)));
  const UserEvent event = next_event(0);
  const auto* failed = std::get_if<Failed>(&event.event);
  ASSERT_NE(failed, nullptr);
  EXPECT_TRUE(failed->error.is(Errc::NoDevice));
}

TEST_F(CardPaths, AreNotMadeFromAStrangersCard) {
  open_without_paths(Error::make(Errc::PathUnresolved, "silence"), 1);
  // What rank 1 finds in place of rank 0's card when it is asked for a connection by it.
  const auto card = board.find(0);
  ASSERT_TRUE(card.has_value());
  auto stranger = pmix::parse_card(*card).value();
  ++stranger.incarnation;
  board.publish(0, pmix::serialize(stranger).value());
  ASSERT_TRUE(drivers[0]->connect(peer(1), seconds(5)));
  const UserEvent event = next_event(0);
  EXPECT_TRUE(std::holds_alternative<Failed>(event.event));
  EXPECT_EQ(drivers[1]->stats().driver.paths_from_cards, 0U);
}

}  // namespace
}  // namespace wireup::conn
