// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cm/cm_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

/// Two hosts that connect to each other at once, each with one QP, and decide
/// as the ranks of a job do: the lower number's REQ counts.
class CrossingHost {
 public:
  CrossingHost(Network& network, std::uint64_t seed, std::uint32_t qpn)
      : host(network, seed), network_(network), qpn_(qpn) {
    host.on_event = [this](const Event& event) { return decide(event); };
  }

  /// As a rank does: not when the peer's connection is already accepted.
  void connect(Network::NodeId peer) {
    if (!accepted_) {
      own_ = host.connect(peer, qpn_, minutes(10));
    }
  }

  Host host;

 private:
  bool decide(const Event& event) {
    const auto* req = event_as<ReqReceived>(event);
    if (req == nullptr) {
      return false;
    }
    const bool we_win = host.id() < Host::host_at(req->from);
    if (own_.has_value() && we_win) {
      host.engine().abandon(req->handle, network_.now());
      return true;
    }
    if (own_.has_value()) {
      host.engine().abandon(*own_, network_.now());
      own_.reset();
    }
    AcceptParams params = host.accept_params();
    params.qpn = Qpn(qpn_);
    params.deadline = network_.now() + minutes(10);
    accepted_ = true;
    EXPECT_TRUE(host.engine().accept(req->handle, params, network_.now()));
    return true;
  }

  Network& network_;
  std::uint32_t qpn_;
  std::optional<Handle> own_;
  bool accepted_ = false;
};

void expect_one_connection(CrossingHost& winner, CrossingHost& loser) {
  EXPECT_EQ(winner.host.all<RepReceived>().size(), 1U);
  EXPECT_EQ(loser.host.all<Established>().size(), 1U);
  EXPECT_EQ(winner.host.all<Established>().size(), 0U);
  EXPECT_EQ(loser.host.all<RepReceived>().size(), 0U);
  for (CrossingHost* side : {&winner, &loser}) {
    EXPECT_EQ(side->host.engine().connections(), 1U);
    EXPECT_EQ(side->host.engine().counters().established, 1U);
    EXPECT_EQ(side->host.all<Disconnected>().size(), 0U);
    EXPECT_EQ(side->host.all<Rejected>().size(), 0U);
    EXPECT_EQ(side->host.all<Failed>().size(), 0U);
  }
}

TEST(Crossing, EndsInOneConnectionWithOneMessageMore) {
  Network network{3};
  CrossingHost a{network, 31, 0x500};
  CrossingHost b{network, 32, 0x600};
  a.connect(b.host.id());
  b.connect(a.host.id());
  ASSERT_TRUE(network.run());
  expect_one_connection(a, b);
  EXPECT_EQ(network.stats().sent, 4U);
}

TEST(Crossing, TheLosersRequestMayBeLate) {
  Network network{3};
  CrossingHost a{network, 31, 0x500};
  CrossingHost b{network, 32, 0x600};
  // b's REQ is held back until the connection made by a's stands.
  std::optional<Datagram> held;
  network.set_filter([&](Network::NodeId from, Network::NodeId, const Datagram& datagram) {
    if (from == b.host.id() && datagram.kind == mad::CmKind::Req && !held.has_value()) {
      held = datagram;
      return true;
    }
    return false;
  });
  a.connect(b.host.id());
  b.connect(a.host.id());
  ASSERT_TRUE(network.run());
  expect_one_connection(a, b);
  ASSERT_TRUE(held.has_value());
  a.host.deliver(*held, network.now());
  ASSERT_TRUE(network.run());
  expect_one_connection(a, b);
  EXPECT_EQ(a.host.dropped(DropReason::Crossing), 1U);
}

TEST(Crossing, EndsInOneConnectionWhateverIsLost) {
  const std::uint64_t seed = test::seed(4);
  const std::uint64_t rounds = test::rounds(500);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    Network network{seed + round};
    network.set_faults({.loss_percent = 30,
                        .duplicate_percent = 10,
                        .reorder_percent = 20,
                        .reorder_delay = milliseconds(2)});
    CrossingHost a{network, seed + 2 * round, 0x500};
    CrossingHost b{network, seed + 2 * round + 1, 0x600};
    a.connect(b.host.id());
    const auto later = Duration(static_cast<std::int64_t>(network.rng().below(6000)));
    network.at(network.now() + later, [&] { b.connect(a.host.id()); });
    ASSERT_TRUE(network.run());
    expect_one_connection(a, b);
    if (testing::Test::HasFailure()) {
      break;
    }
  }
}

}  // namespace
}  // namespace wireup::cm
