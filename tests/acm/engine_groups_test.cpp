// SPDX-License-Identifier: BSD-3-Clause
//
// Groups beyond group 0: every rate up to XDR, slower ones for mixed fabrics, traffic classes, SLs.
#include <gtest/gtest.h>

#include <algorithm>

#include "acm/acm_fabric.hpp"

namespace wireup::acm::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLimit = seconds(10);
constexpr std::uint8_t kRate200 = 17;
constexpr std::uint8_t kRate400 = 21;
constexpr std::uint8_t kRate800 = 23;
constexpr std::uint8_t kBulk = 0x20;

/// "rate/mtu/sl/class" of the joins that an engine asks for, in their order.
std::vector<std::string> joins_of(const Config& config, const PortIdentity& port) {
  Engine engine(config, port, Rng(1), Instant());
  std::vector<std::string> joins;
  while (const auto command = engine.poll_join(Instant())) {
    const mad::McMemberRecord& record = command->record;
    joins.push_back(std::to_string(record.rate) + "/" + std::to_string(record.mtu) + "/" +
                    std::to_string(record.sl.value()) + "/" + std::to_string(record.traffic_class));
    EXPECT_EQ(record.mgid, group_mgid(port.pkey, record.traffic_class, record.rate, record.mtu));
  }
  return joins;
}

using Joins = std::vector<std::string>;

TEST(AcmGroups, EveryLinkUpToXdrHasItsGroup) {
  for (const unsigned lanes : {1U, 2U, 4U, 8U, 12U}) {
    for (std::uint32_t speed = 1; speed <= 256; speed *= 2) {
      const auto rate = mad::link_rate(lanes, speed);
      // Twelve lanes of XDR have no code, so they get no group of "rate 0" either.
      ASSERT_EQ(rate.has_value(), lanes != 12 || speed != 256) << lanes << " lanes of " << speed;
      Joins expected{"3/4/0/0"};
      if (rate.has_value()) {
        expected.push_back(std::to_string(*rate) + "/5/0/0");
      }
      EXPECT_EQ(joins_of(quiet(), node_port(0, rate.value_or(0), mad::kMtu4096)), expected);
    }
  }
}

TEST(AcmGroups, NoGroupOfAnUnknownRate) {
  EXPECT_EQ(joins_of(quiet({{}}), node_port(0, 0, mad::kMtu4096)), Joins{"3/4/0/0"});
  EXPECT_EQ(joins_of(quiet(), node_port(0, mad::kRate10, mad::kMtu2048)), Joins{"3/4/0/0"});
}

TEST(AcmGroups, FurtherOnesInAscendingPreference) {
  const std::vector<GroupSpec> groups{{kRate400, 0, Sl(), 0},
                                      {mad::kRate100, 0, Sl(), 0},
                                      {kRate800, 0, Sl(), 0},
                                      {0, 0, Sl(4), kBulk}};
  // What the port cannot do is left out, and the port's own group comes once.
  EXPECT_EQ(joins_of(quiet(groups), node_port(0, kRate400, mad::kMtu4096)),
            (Joins{"3/4/0/0", "16/5/0/0", "21/5/0/0", "21/5/4/32"}));
  EXPECT_EQ(joins_of(quiet(groups), node_port(0, mad::kRate40, mad::kMtu2048)),
            (Joins{"3/4/0/0", "7/4/0/0", "7/4/4/32"}));
}

TEST(AcmGroups, UnequalPortsMeetAtTheSlowerOnesRate) {
  const Config config =
      quiet({{kRate200, mad::kMtu4096, Sl(), 0}, {mad::kRate100, mad::kMtu4096, Sl(), 0}});
  Fabric fabric(1);
  fabric.add(node_port(0, kRate400, mad::kMtu4096), config);
  fabric.add(node_port(1, kRate200, mad::kMtu4096), config);
  // And one that has only what every ACM has.
  fabric.add(node_port(2, mad::kRate40, mad::kMtu2048), quiet());
  fabric.net.run_for(milliseconds(100));
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  ASSERT_TRUE(fabric.resolve(0, 2, kLimit));
  fabric.net.run_for(milliseconds(1));
  ASSERT_NE(fabric.nodes[0]->learned(node_address(1)), nullptr);
  EXPECT_EQ(fabric.nodes[0]->learned(node_address(1))->record.rate, kRate200);
  EXPECT_EQ(fabric.nodes[1]->learned(node_address(0))->record.rate, kRate200);
  ASSERT_NE(fabric.nodes[0]->learned(node_address(2)), nullptr);
  EXPECT_EQ(fabric.nodes[0]->learned(node_address(2))->record.rate, mad::kRate10);
}

/// Two nodes with a group of class 0x20 at SL 4, and a third without.
std::unique_ptr<Fabric> bulk_fabric() {
  auto fabric = std::make_unique<Fabric>(1);
  fabric->keep_asked_sl = true;
  const Config config = quiet({{0, 0, Sl(4), kBulk}});
  fabric->add(node_port(0, mad::kRate40, mad::kMtu4096), config);
  fabric->add(node_port(1, mad::kRate40, mad::kMtu4096), config);
  fabric->add(node_port(2, mad::kRate40, mad::kMtu4096), quiet());
  fabric->net.run_for(milliseconds(100));
  return fabric;
}

void resolve_bulk(Fabric& fabric, std::size_t from, std::size_t to) {
  ASSERT_TRUE(fabric.nodes[from]->engine.resolve(node_address(to), fabric.now() + kLimit,
                                                 fabric.now(), kBulk));
  fabric.nodes[from]->drain(fabric.now());
  fabric.net.run_for(milliseconds(1));
}

TEST(AcmGroups, ATrafficClassHasPathsOfItsOwn) {
  auto fabric = bulk_fabric();
  resolve_bulk(*fabric, 0, 1);
  FabricNode& node = *fabric->nodes[0];
  ASSERT_NE(node.learned(node_address(1)), nullptr);
  EXPECT_EQ(node.learned(node_address(1))->traffic_class, kBulk);
  const auto bulk = node.engine.path(node_address(1), kBulk);
  ASSERT_TRUE(bulk.has_value());
  EXPECT_EQ(bulk->sl, Sl(4));
  EXPECT_EQ(bulk->traffic_class, kBulk);
  EXPECT_EQ(bulk->rate, mad::kRate40);
  EXPECT_FALSE(node.engine.path(node_address(1)).has_value()) << "the answer named one group";
  EXPECT_EQ(node.engine.traffic_class_with(Sl(4)), kBulk);
  EXPECT_EQ(node.engine.traffic_class_with(Sl(0)), 0);
  EXPECT_FALSE(node.engine.traffic_class_with(Sl(7)).has_value());
  // Who heard the question knows the asker in all classes that they share.
  EXPECT_EQ(fabric->nodes[1]->engine.path(node_address(0))->sl, Sl(0));
  EXPECT_EQ(fabric->nodes[1]->engine.path(node_address(0), kBulk)->sl, Sl(4));
  EXPECT_EQ(fabric->nodes[2]->engine.path(node_address(0))->sl, Sl(0));
}

TEST(AcmGroups, ARequestHasTheGroupsOfItsClassLast) {
  auto fabric = bulk_fabric();
  resolve_bulk(*fabric, 0, 1);
  ASSERT_TRUE(fabric->resolve(0, 2, kLimit));
  const auto groups_of = [&](std::size_t index) {
    return std::get<mad::AcmRequest>(*mad::parse_acm(fabric->nodes[0]->sent[index].bytes)).groups;
  };
  const Gid group0({0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0, 3, 4});
  const Gid port({0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0, 7, 5});
  const Gid bulk({0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, kBulk, 7, 5});
  mad::AcmGroups expected;
  expected.count = 3;
  expected.gids = {group0, port, bulk};
  EXPECT_EQ(groups_of(0), expected);
  expected.gids = {bulk, group0, port};
  EXPECT_EQ(groups_of(1), expected);
  EXPECT_EQ(fabric->nodes[0]->sent[0].to.dgid, group0) << "always asked in group 0";
}

TEST(AcmGroups, APeerWithoutTheClassSaysSoByItsAnswer) {
  auto fabric = bulk_fabric();
  resolve_bulk(*fabric, 0, 2);
  FabricNode& node = *fabric->nodes[0];
  ASSERT_EQ(node.answers(node_address(2)), 1U);
  EXPECT_EQ(node.unresolved(node_address(2))->reason, UnresolvedReason::OtherClass);
  EXPECT_EQ(node.engine.pending(), 0U);
  EXPECT_TRUE(node.engine.path(node_address(2)).has_value()) << "its class 0 was learned by it";
}

TEST(AcmGroups, AClassWithoutAGroupIsTheCallersMistake) {
  auto fabric = bulk_fabric();
  const auto refused = fabric->nodes[2]->engine.resolve(node_address(1), fabric->now() + kLimit,
                                                        fabric->now(), kBulk);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().is(Errc::InvalidArgument));
}

TEST(AcmGroups, AReplyOfAnotherRateOrClassIsAFailedJoin) {
  const auto try_reply = [](auto change) {
    Engine engine(quiet(), node_port(0), Rng(1), Instant());
    mad::McMemberRecord reply = engine.poll_join(Instant())->record;
    reply.mlid = Lid(0xC001);
    change(reply);
    engine.handle_join_reply(reply, Instant());
    return engine.is_ready();
  };
  EXPECT_TRUE(try_reply([](mad::McMemberRecord&) {}));
  EXPECT_TRUE(try_reply([](mad::McMemberRecord& reply) { reply.sl = Sl(3); }))
      << "the SL is the SA's to give";
  EXPECT_FALSE(try_reply([](mad::McMemberRecord& reply) { reply.rate = 2; }));
  EXPECT_FALSE(try_reply([](mad::McMemberRecord& reply) { reply.mtu = 5; }));
  EXPECT_FALSE(try_reply([](mad::McMemberRecord& reply) { reply.traffic_class = 1; }));
  EXPECT_FALSE(try_reply([](mad::McMemberRecord& reply) { reply.qkey = QKey(1); }));
  EXPECT_FALSE(try_reply([](mad::McMemberRecord& reply) { reply.mlid = Lid(0xFFFF); }));
}

TEST(AcmConfig, ValuesThatNoEngineCanWorkWithAreNamed) {
  EXPECT_TRUE(validate(Config{}).has_value());
  const auto is_refused = [](auto change, const char* word) {
    Config config;
    change(config);
    const auto checked = validate(config);
    return !checked.has_value() && checked.error().is(Errc::InvalidArgument) &&
           checked.error().what().find(word) != std::string_view::npos;
  };
  EXPECT_TRUE(is_refused([](Config& c) { c.min_rate = 1; }, "group 0"));
  EXPECT_TRUE(is_refused([](Config& c) { c.min_mtu = 6; }, "group 0"));
  EXPECT_TRUE(is_refused([](Config& c) { c.further_groups.resize(5); }, "room for 4"));
  EXPECT_TRUE(is_refused([](Config& c) { c.further_groups = {{99, 0, Sl(), 0}}; }, "rate code 99"));
  EXPECT_TRUE(is_refused([](Config& c) { c.further_groups = {{0, 9, Sl(), 0}}; }, "MTU code 9"));
  EXPECT_TRUE(is_refused(
      [](Config& c) {
        c.further_groups = {{0, 0, Sl(1), 8}, {0, 0, Sl(2), 8}};
      },
      "traffic class"));
  EXPECT_TRUE(is_refused([](Config& c) { c.first_retry = Duration::zero(); }, "retry"));
  EXPECT_TRUE(is_refused([](Config& c) { c.sa_max_retry = Duration::zero(); }, "retry"));
  EXPECT_TRUE(is_refused([](Config& c) { c.jitter_percent = 100; }, "jitter"));
  EXPECT_TRUE(is_refused([](Config& c) { c.backoff_percent = 99; }, "growth"));
  EXPECT_TRUE(is_refused([](Config& c) { c.window = 0; }, "windows"));
  EXPECT_TRUE(is_refused([](Config& c) { c.sa_max_window = 1; }, "window"));
}

}  // namespace
}  // namespace wireup::acm::test
