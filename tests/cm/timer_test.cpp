// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cm/cm_host.hpp"
#include "cm/engine/ack_timeout.hpp"
#include "cm/engine/rtt_estimator.hpp"

namespace wireup::cm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(AckTimeout, CombinesDelayAndLifetime) {
  const auto exponent = [](unsigned delay, unsigned lifetime) {
    return unsigned{ack_timeout(IbTimeout(static_cast<std::uint8_t>(delay)),
                                IbTimeout(static_cast<std::uint8_t>(lifetime)))
                        .exponent()};
  };
  EXPECT_EQ(exponent(0, 18), 19U) << "the delay is negligible";
  EXPECT_EQ(exponent(15, 18), 19U);
  EXPECT_EQ(exponent(18, 18), 20U) << "both matter";
  EXPECT_EQ(exponent(19, 18), 20U);
  EXPECT_EQ(exponent(20, 18), 21U);
  EXPECT_EQ(exponent(21, 18), 21U) << "the lifetime is negligible";
  EXPECT_EQ(exponent(15, 14), 16U);
  EXPECT_EQ(exponent(31, 31), 31U) << "no more than 5 bits";
  EXPECT_EQ(exponent(0, 0), 2U);
}

TEST(RttEstimator, FollowsTheSamples) {
  RttEstimator estimator;
  EXPECT_EQ(estimator.rto(milliseconds(500), milliseconds(1), seconds(8)), milliseconds(500));
  estimator.add(milliseconds(10));
  // The first sample: itself plus four times its half.
  EXPECT_EQ(estimator.rto(milliseconds(500), milliseconds(1), seconds(8)), milliseconds(30));
  for (int i = 0; i < 100; ++i) {
    estimator.add(milliseconds(10));
  }
  EXPECT_EQ(estimator.smoothed(), milliseconds(10));
  EXPECT_EQ(estimator.rto(milliseconds(500), milliseconds(1), seconds(8)), milliseconds(20));
  EXPECT_EQ(estimator.rto(milliseconds(500), milliseconds(50), seconds(8)), milliseconds(50));
  for (int i = 0; i < 100; ++i) {
    estimator.add(seconds(20));
  }
  EXPECT_EQ(estimator.rto(milliseconds(500), milliseconds(50), seconds(8)), seconds(8));
}

class Timers : public testing::Test {
 protected:
  /// Time from a REQ to its repetition when everything is lost.
  Duration first_interval() {
    network.set_filter(
        [this](Network::NodeId from, Network::NodeId, const Datagram&) { return from == a.id(); });
    const auto before = a.sent(mad::CmKind::Req);
    const Instant start = network.now();
    a.connect(b.id(), 0x9000);
    EXPECT_TRUE(network.run_until([&] { return a.sent(mad::CmKind::Req) == before + 2; }));
    network.set_filter({});
    return network.now() - start;
  }

  static Config config() {
    Config config = Host::usual_config();
    config.min_rto = milliseconds(2);
    return config;
  }

  Network network{8};
  Host a{network, 81, config()};
  Host b{network, 82, config()};
};

TEST_F(Timers, TheFirstIntervalIsTheConfiguredOne) {
  const Duration interval = first_interval();
  EXPECT_GE(interval, milliseconds(400));
  EXPECT_LE(interval, milliseconds(600));
}

TEST_F(Timers, MeasuredRoundTripsShortenIt) {
  network.set_faults({.min_delay = milliseconds(1), .max_delay = milliseconds(1)});
  for (std::uint32_t i = 0; i < 50; ++i) {
    a.connect(b.id(), 0x500 + i);
    ASSERT_TRUE(network.run());
  }
  EXPECT_EQ(a.engine().request_round_trip(), milliseconds(2));
  const Duration interval = first_interval();
  EXPECT_GE(interval, microseconds(3200));
  EXPECT_LE(interval, microseconds(4800));
}

TEST_F(Timers, SlowPeersLengthenIt) {
  network.set_faults({.min_delay = milliseconds(100), .max_delay = milliseconds(100)});
  for (std::uint32_t i = 0; i < 50; ++i) {
    a.connect(b.id(), 0x500 + i);
    ASSERT_TRUE(network.run());
  }
  EXPECT_EQ(a.retransmitted_in_all(), 0U);
  EXPECT_GE(first_interval(), milliseconds(320));
}

TEST_F(Timers, RepeatedMessagesAreNoMeasurement) {
  network.set_filter(lose(b.id(), mad::CmKind::Rep));
  a.connect(b.id(), 0x500);
  ASSERT_TRUE(network.run());
  ASSERT_GT(a.retransmitted_in_all() + b.retransmitted_in_all(), 0U);
  if (a.retransmitted_in_all() > 0) {
    EXPECT_EQ(a.engine().request_round_trip(), std::nullopt);
  }
}

TEST_F(Timers, IntervalsDoubleUpToTheirBound) {
  Config bounded = config();
  bounded.initial_rto = milliseconds(100);
  bounded.max_rto = milliseconds(400);
  bounded.jitter_percent = 0;
  Host c{network, 83, bounded};
  network.set_filter(
      [&](Network::NodeId from, Network::NodeId, const Datagram&) { return from == c.id(); });
  std::vector<Instant> sent;
  std::uint64_t seen = 0;
  c.connect(b.id(), 0x500, seconds(2));
  while (c.events.empty()) {
    if (c.sent(mad::CmKind::Req) > seen) {
      seen = c.sent(mad::CmKind::Req);
      sent.push_back(network.now());
    }
    ASSERT_TRUE(network.step());
  }
  ASSERT_GE(sent.size(), 5U);
  EXPECT_EQ(sent[1] - sent[0], milliseconds(100));
  EXPECT_EQ(sent[2] - sent[1], milliseconds(200));
  EXPECT_EQ(sent[3] - sent[2], milliseconds(400));
  EXPECT_EQ(sent[4] - sent[3], milliseconds(400));
}

TEST_F(Timers, AnEarlyOrRepeatedWakeDoesNothing) {
  a.connect(b.id(), 0x500);
  const Engine before = a.engine();
  a.engine().handle_timeout(network.now());
  a.engine().handle_timeout(network.now());
  EXPECT_EQ(a.engine(), before);
}

}  // namespace
}  // namespace wireup::cm
