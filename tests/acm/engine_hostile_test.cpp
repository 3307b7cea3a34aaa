// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "acm/acm_fabric.hpp"
#include "support/seed.hpp"

namespace wireup::acm::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// One joined engine at QDR with a request in flight for node 1, and the bytes of that request.
struct Victim {
  Victim() {
    Config config;
    config.announcements = 0;
    fabric.add(node_port(0, mad::kRate40, mad::kMtu4096), config);
    fabric.net.run_for(milliseconds(10));
    EXPECT_TRUE(fabric.resolve(0, 1, seconds(30)));
    EXPECT_EQ(node().sent.size(), 1U);
    request = std::get<mad::AcmRequest>(*mad::parse_acm(node().sent.front().bytes));
  }

  FabricNode& node() { return *fabric.nodes[0]; }
  Engine& engine() { return node().engine; }
  Instant now() { return fabric.now(); }

  void hear(const Source& from, const mad::AcmRequest& message) {
    mad::Mad bytes;
    mad::serialize(message, bytes);
    engine().handle_mad(from, bytes, now());
    node().drain(now());
  }
  void hear(const Source& from, const mad::AcmResponse& message) {
    mad::Mad bytes;
    mad::serialize(message, bytes);
    engine().handle_mad(from, bytes, now());
    node().drain(now());
  }
  [[nodiscard]] std::uint64_t drops(Drop drop) { return engine().counters().drops(drop); }

  /// A request of node 2 for node 0.
  [[nodiscard]] mad::AcmRequest good_request() const {
    mad::AcmRequest message = request;
    message.destination = node_address(0);
    message.source = node_address(2);
    return message;
  }

  Fabric fabric{1};
  mad::AcmRequest request{Tid(), node_address(0), node_address(0), {}};
};

Source source_of(std::size_t index) {
  return {node_lid(index), node_qpn(index), 0, true, node_gid(index)};
}

TEST(AcmHostile, AGoodRequestIsAnsweredByUnicastWithGrh) {
  Victim victim;
  victim.hear(source_of(2), victim.good_request());
  ASSERT_EQ(victim.node().sent.size(), 2U);
  const Transmit& answer = victim.node().sent.back();
  EXPECT_EQ(answer.kind, TransmitKind::Response);
  EXPECT_EQ(answer.to.dlid, node_lid(2));
  EXPECT_EQ(answer.to.qpn, node_qpn(2));
  EXPECT_EQ(answer.to.dgid, node_gid(2));
  const auto parsed = mad::parse_acm(answer.bytes);
  ASSERT_TRUE(parsed.has_value());
  const auto& response = std::get<mad::AcmResponse>(*parsed);
  EXPECT_EQ(response.tid, victim.request.tid);
  EXPECT_EQ(response.group, group_mgid(PKey(0xFFFF), 0, mad::kRate40, mad::kMtu4096));
}

TEST(AcmHostile, DatagramsWithoutGrhAreNotUsed) {
  Victim victim;
  Source source = source_of(2);
  source.has_grh = false;
  victim.hear(source, victim.good_request());
  EXPECT_EQ(victim.drops(Drop::NoGrh), 1U);
  EXPECT_EQ(victim.node().sent.size(), 1U);
}

TEST(AcmHostile, SourcesThatNoPortCanHave) {
  Victim victim;
  Source multicast_lid = source_of(2);
  multicast_lid.slid = Lid(0xC001);
  Source zero_lid = source_of(2);
  zero_lid.slid = Lid();
  Source multicast_gid = source_of(2);
  multicast_gid.sgid = Gid({0xFF, 0x12});
  for (const Source& source : {multicast_lid, zero_lid, multicast_gid}) {
    victim.hear(source, victim.good_request());
  }
  EXPECT_EQ(victim.drops(Drop::BadSource), 3U);
  EXPECT_EQ(victim.engine().entries(), 1U);
}

TEST(AcmHostile, NobodySpeaksForAnotherPort) {
  Victim victim;
  // Node 3 says that it is node 2.
  victim.hear(source_of(3), victim.good_request());
  EXPECT_EQ(victim.drops(Drop::SourceMismatch), 1U);
  EXPECT_FALSE(victim.engine().path(node_address(2)).has_value());
  mad::AcmRequest by_lid = victim.good_request();
  by_lid.source = mad::AcmAddress::lid(node_lid(2));
  victim.hear(source_of(3), by_lid);
  EXPECT_EQ(victim.drops(Drop::SourceMismatch), 2U);
  // And nobody takes our own address.
  mad::AcmRequest as_us = victim.good_request();
  as_us.source = node_address(0);
  victim.hear(source_of(3), as_us);
  EXPECT_EQ(victim.drops(Drop::OwnAddress), 1U);
  EXPECT_EQ(victim.node().sent.size(), 1U);
}

TEST(AcmHostile, AnswersCountOnlyFromWhoWasAsked) {
  Victim victim;
  const Gid group = group_mgid(PKey(0xFFFF), 0, mad::kRate40, mad::kMtu4096);
  victim.hear(source_of(1), mad::AcmResponse{Tid(victim.request.tid.value() + 1), 0, group});
  EXPECT_EQ(victim.drops(Drop::UnknownTid), 1U);
  victim.hear(source_of(3), mad::AcmResponse{victim.request.tid, 0, group});
  EXPECT_EQ(victim.drops(Drop::ReplierMismatch), 1U);
  victim.hear(source_of(1), mad::AcmResponse{victim.request.tid, 0, Gid({0xFF, 0x99})});
  EXPECT_EQ(victim.drops(Drop::NoCommonGroup), 1U);
  EXPECT_EQ(victim.engine().pending(), 1U);
  victim.hear(source_of(1), mad::AcmResponse{victim.request.tid, 0, group});
  EXPECT_EQ(victim.engine().pending(), 0U);
  EXPECT_EQ(victim.node().answers(node_address(1)), 1U);
  victim.hear(source_of(1), mad::AcmResponse{victim.request.tid, 0, group});
  EXPECT_EQ(victim.node().answers(node_address(1)), 1U) << "the same answer again";
}

TEST(AcmHostile, ARefusalEndsTheRequest) {
  Victim victim;
  victim.hear(source_of(1), mad::AcmResponse{victim.request.tid, 3, std::nullopt});
  EXPECT_EQ(victim.node().answers(node_address(1)), 1U);
  EXPECT_EQ(victim.node().unresolved(node_address(1))->reason, UnresolvedReason::Refused);
}

TEST(AcmHostile, OurOwnMulticastComesBack) {
  Victim victim;
  EXPECT_EQ(victim.drops(Drop::Own), 0U);
  victim.fabric.net.run_for(milliseconds(1));
  EXPECT_EQ(victim.drops(Drop::Own), 1U);
  EXPECT_EQ(victim.engine().entries(), 1U);
}

TEST(AcmHostile, NoCommonGroupNoAnswer) {
  Victim victim;
  mad::AcmRequest message = victim.good_request();
  message.groups.gids[0] = group_mgid(PKey(0x8001), 0, 3, 4);
  message.groups.count = 1;
  victim.hear(source_of(2), message);
  EXPECT_EQ(victim.drops(Drop::NoCommonGroup), 1U);
  EXPECT_EQ(victim.node().sent.size(), 1U);
}

TEST(AcmHostile, UnsentAnswersAreBounded) {
  Config config;
  config.announcements = 0;
  config.max_transmits = 16;
  Fabric fabric(1);
  fabric.add(node_port(0), config);
  fabric.net.run_for(milliseconds(10));
  Engine& engine = fabric.nodes[0]->engine;
  for (std::size_t i = 1; i <= 100; ++i) {
    mad::AcmRequest request{Tid(i), node_address(0), node_address(i), {}};
    request.groups.gids[0] = group_mgid(PKey(0xFFFF), 0, 3, 4);
    request.groups.count = 1;
    mad::Mad bytes;
    mad::serialize(request, bytes);
    engine.handle_mad(source_of(i), bytes, fabric.now());
  }
  EXPECT_EQ(engine.counters().drops(Drop::QueueFull), 84U);
  std::size_t queued = 0;
  while (engine.poll_transmit()) {
    ++queued;
  }
  EXPECT_EQ(queued, 16U);
  EXPECT_EQ(engine.entries(), 100U) << "they were learned nevertheless";
}

TEST(AcmHostile, RandomAndMutatedBytes) {
  Rng rng(wireup::test::seed(11));
  Victim victim;
  mad::Mad good;
  mad::serialize(victim.good_request(), good);
  std::vector<std::uint8_t> bytes;
  const std::uint64_t rounds = wireup::test::rounds(20000);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::size_t size = rng.below(4) == 0 ? rng.below(400) : mad::kMadSize;
    bytes.assign(size, 0);
    if (rng.below(3) == 0) {
      for (std::uint8_t& byte : bytes) {
        byte = static_cast<std::uint8_t>(rng.next());
      }
    } else {
      std::copy_n(good.begin(), std::min(size, good.size()), bytes.begin());
      for (std::uint64_t changes = rng.below(6); changes > 0 && size > 0; --changes) {
        bytes[rng.below(size)] = static_cast<std::uint8_t>(rng.next());
      }
    }
    victim.engine().handle_mad(source_of(2 + rng.below(3)), bytes, victim.now());
    victim.node().drain(victim.now());
  }
  // Whatever came, only ports 2 to 4 were there to be learned under GIDs and LIDs of their own;
  // names and IP addresses may be anything, but the number is bounded.
  EXPECT_LE(victim.engine().entries(), Config{}.max_entries);
  EXPECT_EQ(victim.engine().pending(), 1U);
  EXPECT_EQ(victim.node().answers(node_address(1)), 0U);
  EXPECT_GT(victim.drops(Drop::Malformed), 1000U);
}

}  // namespace
}  // namespace wireup::acm::test
