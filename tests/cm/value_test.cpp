// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <malloc.h>

#include "cm/cm_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;

/// An engine in the middle of things is copied: both copies do the same from there on, and neither
/// sees the other.
TEST(EngineValue, ACopyGoesOnByItself) {
  Network network{9};
  Host a{network, 91};
  Host b{network, 92};
  const Handle handle = a.connect(b.id(), 0x500);
  Engine copy = a.engine();
  EXPECT_EQ(copy, a.engine());

  ASSERT_TRUE(network.run());
  EXPECT_NE(copy, a.engine()) << "the original went on alone";
  EXPECT_EQ(copy.state(handle), State::ReqSent);
  EXPECT_EQ(a.engine().state(handle), State::Established);

  // The copy, given the same inputs, becomes equal.
  const auto reps = a.all<RepReceived>();
  ASSERT_EQ(reps.size(), 1U);
  const Instant when = Instant(std::chrono::seconds(1)) + std::chrono::microseconds(4);
  copy.handle_mad(Host::address_of(b.id()), mad::serialize(reps[0].rep), when);
  ASSERT_TRUE(copy.poll_event());
  ASSERT_TRUE(copy.establish(handle, {}, when));
  ASSERT_TRUE(copy.poll_transmit());
  EXPECT_EQ(copy, a.engine());
}

TEST(EngineValue, EqualSeedsMakeEqualEngines) {
  const Config config = Host::usual_config();
  const Engine one(config, Rng(1));
  const Engine same(config, Rng(1));
  const Engine other(config, Rng(2));
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);
}

/// The choices of a model checker: from one state, each of three messages is delivered in a copy.
TEST(EngineValue, CopiesExploreDifferentFutures) {
  Network network{9};
  Host a{network, 91};
  Host b{network, 92};
  const Handle handle = a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  const mad::Req req = b.all<ReqReceived>()[0].req;
  const Handle passive = b.all<Established>()[0].handle;

  Engine with_timeout = b.engine();
  Engine with_duplicate = b.engine();
  Engine with_release = b.engine();
  with_timeout.handle_timeout(network.now() + milliseconds(1));
  EXPECT_EQ(with_timeout, b.engine());
  with_duplicate.handle_mad(Host::address_of(a.id()), mad::serialize(req), network.now());
  EXPECT_EQ(with_duplicate.state(passive), State::Established);
  EXPECT_NE(with_duplicate, b.engine()) << "counted";
  ASSERT_TRUE(a.engine().disconnect(handle, {}, network.now()));
  const auto dreq = a.engine().poll_transmit();
  ASSERT_TRUE(dreq);
  with_release.handle_mad(Host::address_of(a.id()), dreq->bytes, network.now());
  EXPECT_EQ(with_release.state(passive), State::Timewait);
  EXPECT_EQ(b.engine().state(passive), State::Established);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// What a connection costs that is established and idle, all tables of the engine included.
TEST(EngineValue, AnIdleConnectionIsSmall) {
  constexpr std::uint32_t kConnections = 16384;
  Network network{9};
  Host a{network, 91};
  Host b{network, 92};
  a.on_event = [&](const Event& event) {
    if (const auto* rep = event_as<RepReceived>(event)) {
      EXPECT_TRUE(a.engine().establish(rep->handle, {}, network.now()));
    }
    return true;
  };
  for (std::uint32_t i = 0; i < kConnections; ++i) {
    a.connect(b.id(), 0x500 + i);
    ASSERT_TRUE(network.run());
    a.events.clear();
    b.events.clear();
  }
  const auto cost_of = [&](const Engine& engine) {
    const auto in_use = [] {
      const auto info = mallinfo2();
      return info.uordblks + info.hblkhd;
    };
    const auto before = in_use();
    const Engine copy = engine;  // NOLINT(performance-unnecessary-copy-initialization): measured
    const auto after = in_use();
    EXPECT_EQ(copy.connections(), kConnections);
    return (after - before) / kConnections;
  };
  const auto active = cost_of(a.engine());
  const auto passive = cost_of(b.engine());
  std::printf("bytes per idle connection: active %zu, passive %zu (sizeof(Connection) %zu)\n",
              active, passive, sizeof(Connection));
  EXPECT_LE(active, 400U);
  EXPECT_LE(passive, 400U);
}
#endif

}  // namespace
}  // namespace wireup::cm
