// SPDX-License-Identifier: BSD-3-Clause
//
// Names, IP addresses, GIDs and LIDs: who answers for them, and what one datagram teaches of all.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "acm/acm_fabric.hpp"

namespace wireup::acm::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLimit = seconds(10);

mad::AcmAddress name(const char* text) {
  return *mad::AcmAddress::name(text);
}

const mad::AcmAddress kIpv4 = mad::AcmAddress::ipv4({192, 168, 7, 2});
const mad::AcmAddress kIpv6 =
    mad::AcmAddress::ipv6({0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});

void resolve(Fabric& fabric, std::size_t node, const mad::AcmAddress& address) {
  ASSERT_TRUE(fabric.nodes[node]->engine.resolve(address, fabric.now() + kLimit, fabric.now()));
  fabric.nodes[node]->drain(fabric.now());
}

/// Node 1 is h1, 192.168.7.2 and 2001:db8::2; nodes 0 and 2 have only what every port has.
std::unique_ptr<Fabric> three_nodes() {
  auto fabric = std::make_unique<Fabric>(1);
  fabric->add(quiet());
  fabric->add(node_port(1), quiet(), {name("h1"), kIpv4, kIpv6});
  fabric->add(quiet());
  fabric->net.run_for(milliseconds(10));
  return fabric;
}

/// A request of a port of another implementation: it claims `source`, and asks for `destination`.
void hear(Fabric& fabric, std::size_t node, std::size_t from, const mad::AcmAddress& source,
          const mad::AcmAddress& destination) {
  mad::AcmRequest request{Tid(7), destination, source, {}};
  request.groups.gids[0] = group_mgid(PKey(0xFFFF), 0, mad::kRate10, mad::kMtu2048);
  request.groups.count = 1;
  mad::Mad bytes;
  mad::serialize(request, bytes);
  fabric.nodes[node]->engine.handle_mad({node_lid(from), node_qpn(from), 0, true, node_gid(from)},
                                        bytes, fabric.now());
  fabric.nodes[node]->drain(fabric.now());
}

TEST(AcmAddresses, EveryKindIsResolved) {
  for (const mad::AcmAddress& address :
       {name("h1"), kIpv4, kIpv6, node_address(1), mad::AcmAddress::lid(node_lid(1))}) {
    auto fabric = three_nodes();
    resolve(*fabric, 0, address);
    fabric->net.run_for(milliseconds(1));
    const PathLearned* learned = fabric->nodes[0]->learned(address);
    ASSERT_NE(learned, nullptr) << static_cast<int>(address.type());
    EXPECT_EQ(fabric->nodes[0]->answers(address), 1U);
    EXPECT_EQ(learned->record.dgid, node_gid(1));
    EXPECT_EQ(learned->record.dlid, node_lid(1));
    EXPECT_EQ(fabric->nodes[2]->engine.counters().responses_sent, 0U);
  }
}

/// The datagram of a request for an IPv4 address, and the one that answers it, byte by byte.
TEST(AcmAddresses, RequestAndAnswerByOffset) {
  auto fabric = three_nodes();
  resolve(*fabric, 0, kIpv4);
  fabric->net.run_for(milliseconds(1));
  ASSERT_EQ(fabric->nodes[0]->sent.size(), 1U);
  ASSERT_EQ(fabric->nodes[1]->sent.size(), 1U);
  const auto put = [](mad::Mad& to, std::size_t at, const std::vector<std::uint8_t>& bytes) {
    std::copy(bytes.begin(), bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
  };
  mad::Mad request{};
  put(request, 0, {1, 0x2C, 1, 0x01, 0, 0, 0, 1});
  put(request, 16, {2, 64, 4, 64, 1, 0, 0, 0});  // IPv4 wanted by a GID, one group
  put(request, 24, {192, 168, 7, 2});
  put(request, 88, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x00});
  put(request, 152, {0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0, 3, 4});
  const Transmit& asked = fabric->nodes[0]->sent[0];
  std::copy_n(asked.bytes.begin() + 8, 8, request.begin() + 8);  // the random transaction id
  EXPECT_EQ(asked.bytes, request);
  EXPECT_EQ(asked.to.qpn, Qpn(0xFFFFFF));
  EXPECT_EQ(asked.to.dgid, Gid({0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0, 3, 4}));
  EXPECT_EQ(asked.to.dlid, Lid(0xC000));

  mad::Mad response{};
  put(response, 0, {1, 0x2C, 1, 0x81, 0, 0, 0, 1});
  std::copy_n(asked.bytes.begin() + 8, 8, response.begin() + 8);
  put(response, 20, {1});
  put(response, 152, {0xFF, 0x15, 0x40, 0x01, 0xFF, 0xFF, 0, 3, 4});
  const Transmit& answered = fabric->nodes[1]->sent[0];
  EXPECT_EQ(answered.bytes, response);
  EXPECT_EQ(answered.to.qpn, node_qpn(0));
  EXPECT_EQ(answered.to.dlid, node_lid(0));
  EXPECT_EQ(answered.to.dgid, node_gid(0));
}

TEST(AcmAddresses, AHeardRequestUnderANameWakesWhoWaitsForTheGid) {
  auto fabric = three_nodes();
  // Nobody hears node 0; another implementation on node 2 asks for something in its own name.
  fabric->net.set_filter([](std::size_t from, std::size_t, const Packet&) { return from == 0; });
  resolve(*fabric, 0, node_address(2));
  resolve(*fabric, 0, mad::AcmAddress::lid(node_lid(2)));
  resolve(*fabric, 0, name("other"));
  resolve(*fabric, 0, name("h7"));
  hear(*fabric, 0, 2, name("other"), name("h9"));
  for (const mad::AcmAddress& address :
       {node_address(2), mad::AcmAddress::lid(node_lid(2)), name("other")}) {
    ASSERT_NE(fabric->nodes[0]->learned(address), nullptr);
    EXPECT_TRUE(fabric->nodes[0]->learned(address)->wanted);
    EXPECT_EQ(fabric->nodes[0]->answers(address), 1U);
    EXPECT_EQ(fabric->nodes[0]->learned(address)->record.dlid, node_lid(2));
  }
  EXPECT_EQ(fabric->nodes[0]->answers(name("h7")), 0U);
  EXPECT_EQ(fabric->nodes[0]->engine.pending(), 1U);
}

TEST(AcmAddresses, AnAnswerUnderANameTeachesGidAndLid) {
  auto fabric = three_nodes();
  resolve(*fabric, 0, name("h1"));
  fabric->net.run_for(milliseconds(1));
  resolve(*fabric, 0, node_address(1));
  resolve(*fabric, 0, mad::AcmAddress::lid(node_lid(1)));
  EXPECT_EQ(fabric->nodes[0]->answers(node_address(1)), 1U);
  EXPECT_EQ(fabric->nodes[0]->answers(mad::AcmAddress::lid(node_lid(1))), 1U);
  EXPECT_EQ(fabric->nodes[0]->engine.counters().requests_sent, 1U);
}

TEST(AcmAddresses, OwnNamesHaveNoCaseAndPeersNamesDo) {
  auto fabric = three_nodes();
  resolve(*fabric, 0, name("H1"));
  fabric->net.run_for(milliseconds(1));
  EXPECT_NE(fabric->nodes[0]->learned(name("H1")), nullptr) << "h1 answers for H1";
  EXPECT_FALSE(fabric->nodes[0]->engine.path(name("h1")).has_value());
  resolve(*fabric, 1, name("H1"));
  ASSERT_NE(fabric->nodes[1]->learned(name("H1")), nullptr) << "told locally";
  EXPECT_EQ(fabric->nodes[1]->learned(name("H1"))->record.dlid, node_lid(1));
}

TEST(AcmAddresses, ANameMayFillItsField) {
  const mad::AcmAddress longest = *mad::AcmAddress::name(std::string(64, 'Z'));
  const mad::AcmAddress folded = *mad::AcmAddress::name(std::string(64, 'z'));
  Fabric fabric(1);
  fabric.add(quiet());
  fabric.add(node_port(1), quiet(), {longest});
  fabric.net.run_for(milliseconds(10));
  resolve(fabric, 0, folded);
  fabric.net.run_for(milliseconds(1));
  EXPECT_NE(fabric.nodes[0]->learned(folded), nullptr);
}

TEST(AcmAddresses, AllLidsOfAPortAreItsOwn) {
  Fabric fabric(1);
  fabric.add(quiet());
  PortIdentity port = node_port(1);
  port.lid = Lid(8);
  port.lmc = 2;
  fabric.add(port, quiet());
  fabric.net.run_for(milliseconds(10));
  for (const std::uint16_t lid : std::array<std::uint16_t, 4>{8, 9, 10, 11}) {
    resolve(fabric, 1, mad::AcmAddress::lid(Lid(lid)));
    EXPECT_EQ(fabric.nodes[1]->answers(mad::AcmAddress::lid(Lid(lid))), 1U) << lid;
    hear(fabric, 1, 0, node_address(0), mad::AcmAddress::lid(Lid(lid)));
    ASSERT_FALSE(fabric.nodes[1]->sent.empty());
    // The answer leaves from the LID that was asked for, so that the asker can tell.
    EXPECT_EQ(fabric.nodes[1]->sent.back().to.path_bits, lid - 8) << lid;
  }
  EXPECT_EQ(fabric.nodes[1]->engine.counters().responses_sent, 4U);
  for (const std::uint16_t lid : std::array<std::uint16_t, 2>{7, 12}) {
    resolve(fabric, 1, mad::AcmAddress::lid(Lid(lid)));
    EXPECT_EQ(fabric.nodes[1]->answers(mad::AcmAddress::lid(Lid(lid))), 0U) << lid;
  }
}

TEST(AcmAddresses, ANewLocalAddressIsNoStrangersAnyMore) {
  auto fabric = three_nodes();
  // It was node 1's and is wanted of it; then it is ours.
  resolve(*fabric, 0, kIpv4);
  fabric->net.run_for(milliseconds(1));
  EXPECT_EQ(fabric->nodes[0]->learned(kIpv4)->record.dlid, node_lid(1));
  resolve(*fabric, 0, name("h5"));
  FabricNode& node = *fabric->nodes[0];
  node.engine.set_locals({kIpv4, name("h5")});
  node.drain(fabric->now());
  EXPECT_EQ(node.answers(name("h5")), 1U);
  EXPECT_EQ(node.learned(name("h5"))->record.dlid, node_lid(0));
  EXPECT_EQ(node.engine.pending(), 0U);
  resolve(*fabric, 0, kIpv4);
  EXPECT_EQ(node.learned(kIpv4)->record.dlid, node_lid(0));
  // And when it is taken away it is asked for like any other.
  node.engine.set_locals({});
  resolve(*fabric, 0, kIpv4);
  fabric->net.run_for(milliseconds(1));
  EXPECT_EQ(node.learned(kIpv4)->record.dlid, node_lid(1));
}

TEST(AcmAddresses, ALidThatBecomesOursIsNotAskedForAnyMore) {
  auto fabric = three_nodes();
  resolve(*fabric, 0, mad::AcmAddress::lid(Lid(50)));
  PortIdentity port = node_port(0);
  port.lid = Lid(50);
  FabricNode& node = *fabric->nodes[0];
  node.engine.port_changed(port, fabric->now());
  node.drain(fabric->now());
  EXPECT_EQ(node.answers(mad::AcmAddress::lid(Lid(50))), 1U);
  EXPECT_EQ(node.engine.pending(), 0U);
}

TEST(AcmAddresses, AFailedPathTakesAllNamesOfItsPortAlong) {
  auto fabric = three_nodes();
  resolve(*fabric, 0, name("h1"));
  resolve(*fabric, 0, kIpv6);
  resolve(*fabric, 0, node_address(2));
  fabric->net.run_for(milliseconds(1));
  fabric->nodes[0]->engine.path_failed(kIpv6);
  for (const mad::AcmAddress& address : {name("h1"), kIpv6, node_address(1)}) {
    EXPECT_FALSE(fabric->nodes[0]->engine.path(address).has_value());
  }
  EXPECT_TRUE(fabric->nodes[0]->engine.path(node_address(2)).has_value());
}

TEST(AcmAddresses, APortCannotFillTheTableWithNames) {
  auto fabric = three_nodes();
  for (int i = 0; i < 200; ++i) {
    hear(*fabric, 0, 2, name(("n" + std::to_string(i)).c_str()), name("x"));
  }
  Engine& engine = fabric->nodes[0]->engine;
  EXPECT_EQ(engine.entries(), Config{}.max_addresses_per_port + 1) << "and its GID";
  EXPECT_EQ(engine.counters().drops(Drop::TooManyAddresses), 200 - Config{}.max_addresses_per_port);
  hear(*fabric, 0, 1, name("h1"), name("x"));
  EXPECT_TRUE(engine.path(name("h1")).has_value()) << "others are not concerned";
}

TEST(AcmAddresses, AServiceOnOurOwnPortIsHeardAsLocal) {
  auto fabric = three_nodes();
  // An ibacm on node 0 itself, with a queue pair of its own.
  mad::AcmRequest request{Tid(7), node_address(0), name("me"), {}};
  request.groups.gids[0] = group_mgid(PKey(0xFFFF), 0, mad::kRate10, mad::kMtu2048);
  request.groups.count = 1;
  mad::Mad bytes;
  mad::serialize(request, bytes);
  FabricNode& node = *fabric->nodes[0];
  node.engine.handle_mad({node_lid(0), Qpn(0x777), 0, true, node_gid(0)}, bytes, fabric->now());
  node.drain(fabric->now());
  ASSERT_TRUE(node.engine.path(name("me")).has_value());
  EXPECT_EQ(*node.engine.path(name("me")), local_path(node_port(0)));
  EXPECT_EQ(node.engine.entries(), 1U) << "our own GID is no entry";
  EXPECT_EQ(node.sent.size(), 1U) << "and it is answered";
}

TEST(AcmAddresses, TriesMayBeLimited) {
  Config config = quiet();
  config.max_tries = 3;
  Fabric fabric(1);
  fabric.add(config);
  fabric.net.run_for(milliseconds(10));
  const Instant start = fabric.now();
  ASSERT_TRUE(fabric.resolve(0, 9, seconds(60)));
  ASSERT_TRUE(fabric.net.run_until([&] { return fabric.nodes[0]->answers(node_address(9)) == 1; }));
  EXPECT_EQ(fabric.nodes[0]->unresolved(node_address(9))->attempts, 3U);
  EXPECT_LT(fabric.now() - start, seconds(1));
}

TEST(AcmAddresses, ALifeWithoutEndLeavesNoTimer) {
  Config config = quiet();
  config.address_life = kForever;
  Fabric fabric(1);
  fabric.add(config);
  fabric.add(config);
  fabric.net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  fabric.net.run_for(milliseconds(1));
  EXPECT_TRUE(fabric.nodes[0]->engine.path(node_address(1)).has_value());
  EXPECT_FALSE(fabric.nodes[0]->engine.poll_timeout().has_value());
  fabric.nodes[0]->engine.handle_timeout(fabric.now() + std::chrono::hours(100000));
  EXPECT_TRUE(fabric.nodes[0]->engine.path(node_address(1)).has_value());
}

TEST(AcmAddresses, AGroupThatComesBackOtherwiseVoidsThePaths) {
  Fabric fabric(1);
  fabric.add(quiet());
  fabric.add(quiet());
  fabric.net.run_for(milliseconds(10));
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  fabric.net.run_for(milliseconds(1));
  FabricNode& node = *fabric.nodes[0];
  node.engine.rejoin(fabric.now());
  node.drain(fabric.now());
  fabric.net.run_for(milliseconds(10));
  EXPECT_EQ(node.invalidations, 0U) << "the same group";
  fabric.group_sl = Sl(3);
  node.engine.rejoin(fabric.now());
  node.drain(fabric.now());
  fabric.net.run_for(milliseconds(10));
  EXPECT_EQ(node.invalidations, 1U);
  ASSERT_TRUE(fabric.resolve(0, 1, kLimit));
  fabric.net.run_for(milliseconds(1));
  EXPECT_EQ(node.learned(node_address(1))->record.sl, Sl(3));
}

}  // namespace
}  // namespace wireup::acm::test
