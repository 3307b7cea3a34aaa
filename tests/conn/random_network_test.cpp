// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "conn/conn_host.hpp"

namespace wireup::conn {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr test::Faults kBadNetwork{.loss_percent = 20,
                                   .duplicate_percent = 10,
                                   .reorder_percent = 20,
                                   .reorder_delay = milliseconds(5),
                                   .min_delay = microseconds(2),
                                   .max_delay = microseconds(50)};

/// Every pair connects from both sides at once.
TEST(RandomNetwork, AllPairsFromBothSidesOverABadNetwork) {
  const std::uint64_t seed = test::seed();
  constexpr std::uint32_t kRanks = 16;
  World world(kRanks, seed);
  world.network.set_faults(kBadNetwork);
  for (auto& rank : world.ranks) {
    rank->answer_delay = [&world] {
      return Duration(static_cast<std::int64_t>(world.network.rng().below(2'000'000)));
    };
    for (std::uint32_t peer = 0; peer < kRanks; ++peer) {
      if (peer != rank->rank()) {
        ASSERT_TRUE(rank->connect(peer, seconds(60)));
      }
    }
  }
  ASSERT_TRUE(world.network.run());
  for (std::uint32_t a = 0; a < kRanks; ++a) {
    for (std::uint32_t b = a + 1; b < kRanks; ++b) {
      expect_connected(world[a], world[b]);
    }
    EXPECT_EQ(world[a].all<Connected>().size(), kRanks - 1);
    EXPECT_EQ(world[a].all<Failed>().size(), 0U);
    EXPECT_EQ(world[a].qps.size(), kRanks - 1);
    expect_settled(world[a]);
  }
}

/// A crossed connect costs one REQ more, not a storm.
TEST(RandomNetwork, CrossingCostsAtMostOneMessageMore) {
  constexpr std::uint32_t kRanks = 12;
  World world(kRanks, test::seed());
  world.network.set_faults({.min_delay = microseconds(5), .max_delay = microseconds(50)});
  for (auto& rank : world.ranks) {
    for (std::uint32_t peer = 0; peer < kRanks; ++peer) {
      if (peer != rank->rank()) {
        ASSERT_TRUE(rank->connect(peer));
      }
    }
  }
  ASSERT_TRUE(world.network.run());
  std::uint64_t sent = 0;
  for (auto& rank : world.ranks) {
    sent += rank->sent_in_all();
    EXPECT_EQ(rank->all<Connected>().size(), kRanks - 1);
  }
  constexpr std::uint64_t kPairs = kRanks * (kRanks - 1) / 2;
  EXPECT_LE(sent, 4 * kPairs);
}

/// Ranks that connect and close at random. Whatever the network did, once it is good again and all
/// is quiet, both ends of each pair agree, and every pair can be connected.
TEST(RandomNetwork, ConnectsAndClosesAtRandomEndInAgreement) {
  const std::uint64_t seed = test::seed();
  constexpr std::uint32_t kRanks = 6;
  std::uint64_t connected = 0;
  const std::uint64_t rounds = test::rounds(20);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    World world(kRanks, seed + round);
    world.network.set_faults(kBadNetwork);
    Rng& rng = world.network.rng();
    for (auto& rank : world.ranks) {
      rank->answer_delay = [&rng] {
        return Duration(static_cast<std::int64_t>(rng.below(3'000'000)));
      };
    }
    for (int action = 0; action < 400; ++action) {
      const auto from = static_cast<std::uint32_t>(rng.below(kRanks));
      const auto to = static_cast<std::uint32_t>(rng.below(kRanks));
      if (rng.below(100) < 65) {
        ASSERT_TRUE(world[from].connect(to, seconds(30)));
      } else {
        static_cast<void>(world[from].close(to));  // there may be nothing to close
      }
      world.network.run_for(Duration(static_cast<std::int64_t>(rng.below(40'000'000))));
    }
    world.network.set_faults({});
    ASSERT_TRUE(world.network.run()) << "round " << round;
    for (std::uint32_t a = 0; a < kRanks; ++a) {
      for (std::uint32_t b = a + 1; b < kRanks; ++b) {
        expect_agreement(world[a], world[b]);
      }
      expect_settled(world[a]);
      connected += world[a].all<Connected>().size();
    }
    // Nothing that happened stands in the way of new connections.
    for (std::uint32_t a = 0; a < kRanks; ++a) {
      for (std::uint32_t b = a + 1; b < kRanks; ++b) {
        ASSERT_TRUE(world[a].connect(b, seconds(10)));
      }
    }
    ASSERT_TRUE(world.network.run());
    for (std::uint32_t a = 0; a < kRanks; ++a) {
      for (std::uint32_t b = a + 1; b < kRanks; ++b) {
        expect_connected(world[a], world[b]);
      }
      expect_settled(world[a]);
    }
    if (testing::Test::HasFailure()) {
      FAIL() << "round " << round << " of seed " << seed;
    }
  }
  EXPECT_GT(connected, 1000U);
}

/// Bytes that no peer of ours would send change nothing.
TEST(RandomNetwork, HostileBytesAreHarmless) {
  const std::uint64_t seed = test::seed();
  World world(2, seed);
  Rng rng(seed);
  std::vector<Datagram> seen;
  world.network.set_filter([&](auto, auto, const Datagram& d) {
    seen.push_back(d);
    return false;
  });
  ASSERT_TRUE(world[0].connect(1));
  ASSERT_TRUE(world.network.run());
  const auto originals = seen;
  const std::uint64_t rounds = test::rounds(20000);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    Datagram d = originals[rng.below(originals.size())];
    const auto flips = 1 + rng.below(4);
    for (std::uint64_t flip = 0; flip < flips; ++flip) {
      d.bytes[rng.below(d.bytes.size())] ^= static_cast<std::uint8_t>(1U << rng.below(8));
    }
    world[static_cast<std::uint32_t>(rng.below(2))].deliver(d, world.network.now());
  }
  ASSERT_TRUE(world.network.run(10'000'000));
  expect_agreement(world[0], world[1]);
  EXPECT_EQ(world[0].engine().pending_count(), 0U);
  EXPECT_EQ(world[1].engine().pending_count(), 0U);
}

}  // namespace
}  // namespace wireup::conn
