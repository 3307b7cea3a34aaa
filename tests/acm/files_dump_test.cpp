// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "acm/files/path_dump.hpp"
#include "base/rng.hpp"
#include "support/seed.hpp"

namespace wireup::acm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kPrefix = 0xFE80000000000000;
constexpr std::uint64_t kSwitchGuid = 0x0002C90000000010;
constexpr std::uint64_t kNode1Guid = 0x0002C90000000021;
constexpr std::uint64_t kNode2Guid = 0x0002C90000000022;
constexpr std::uint64_t kRouterGuid = 0x0002C90000000031;

DumpedPort own(std::uint64_t guid, std::uint16_t lid) {
  return {.gid = Gid::make(kPrefix, Guid(guid)),
          .base_lid = Lid(lid),
          .pkey = PKey(0x8001),
          .packet_lifetime = 18};
}

std::vector<std::string> texts(const Parsed<PathDump>& parsed) {
  std::vector<std::string> all;
  for (const Error& error : parsed.problems.first) {
    all.emplace_back(error.what());
  }
  return all;
}

/// A record with all that the files say of it; everything else must be zero.
mad::PathRecord record(std::uint64_t from, std::uint16_t slid, std::uint64_t to, std::uint16_t dlid,
                       std::uint8_t sl, std::uint8_t mtu, std::uint8_t rate) {
  mad::PathRecord expected;
  expected.sgid = Gid::make(kPrefix, Guid(from));
  expected.slid = Lid(slid);
  expected.dgid = Gid::make(kPrefix, Guid(to));
  expected.dlid = Lid(dlid);
  expected.reversible = true;
  expected.numb_path = 1;
  expected.pkey = PKey(0x8001);
  expected.sl = Sl(sl);
  expected.mtu_selector = mad::Selector::Exactly;
  expected.mtu = mtu;
  expected.rate_selector = mad::Selector::Exactly;
  expected.rate = rate;
  expected.packet_lifetime_selector = mad::Selector::Exactly;
  expected.packet_lifetime = slid == dlid ? 0 : 18;
  return expected;
}

// A switch, two nodes and a router. SLs differ by direction. Node 1 has no way to LID 9 and a
// second LID (LMC), 3, that the dump does not say to be its own.
constexpr std::string_view kFabric =
    "Switch 0x0002c90000000010, base LID 1, \"leaf1, base LID 7\", port 0\n"
    "# LID  : SL : MTU : RATE\n"
    "0x0001 : 0  : 4   : 7 \n"
    "0x0002 : 5  : 4   : 7 \n"
    "0x0004 : 0  : 4   : 7 \n"
    "\n"
    "Channel Adapter 0x0002c90000000021, base LID 2, \"n1 HCA-1\", port 1\n"
    "# LID  : SL : MTU : RATE\n"
    "0x0001 : 0  : 4   : 7 \n"
    "0x0002 : 0  : 5   : 16\n"
    "0x0003 : 0  : 5   : 16\n"
    "0x0004 : 1  : 5   : 16\n"
    "0xBFFF : 2  : 3   : 12\n"
    "0x0009 : UNREACHABLE\n"
    "\n"
    "Channel Adapter 0x0002c90000000022, base LID 4, \"n2 HCA-1\", port 1\n"
    "# LID  : SL : MTU : RATE\n"
    "0x0002 : 9  : 5   : 16\n"
    "0x0001 : 0  : 4   : 7 \n"
    "\n"
    "Router 0x0002c90000000031, base LID 49151, \"\", port 2\n"
    "0x0002 : UNREACHABLE\n";

TEST(AcmFilesDump, FurtherLidsOfPortsWithAnLmc) {
  constexpr std::string_view kText =
      "Channel Adapter 0x0002c90000000021, base LID 4, \"n1 HCA-1\", port 1\n"
      "0x0004 : 0  : 5   : 16\n"
      "0x0005 : 0  : 5   : 16\n"
      "0x0008 : 1  : 5   : 16\n"
      "0x0009 : 2  : 5   : 16\n"
      "0x000a : 3  : 5   : 16\n"
      "\n"
      "Channel Adapter 0x0002c90000000022, base LID 8, \"n2 HCA-1\", port 1\n"
      "0x0004 : 5  : 5   : 16\n"
      "0x0005 : 6  : 5   : 16\n"
      "\n"
      // Not a base LID of a port with two LIDs, and its second one would be of nobody.
      "Switch 0x0002c90000000010, base LID 49151, \"leaf1\", port 0\n"
      "0x0004 : 7  : 5   : 16\n"
      "0x0005 : 7  : 5   : 16\n";
  DumpedPort port = own(kNode1Guid, 4);
  port.lmc = 1;
  const auto parsed = parse_path_dump(kText, "f", port);
  EXPECT_THAT(texts(parsed), IsEmpty());
  EXPECT_EQ(parsed.value.foreign_lids, 1U) << "LID 10 belongs to nobody";
  std::vector<DumpedPath> to_peer;
  for (const DumpedPath& path : parsed.value.paths) {
    if (path.outbound.dgid != port.gid) {
      to_peer.push_back(path);
    }
  }
  EXPECT_THAT(to_peer,
              ElementsAre(DumpedPath{.destination = NodeKind::ChannelAdapter,
                                     .outbound = record(kNode1Guid, 4, kNode2Guid, 8, 1, 5, 16),
                                     .inbound = record(kNode2Guid, 8, kNode1Guid, 4, 5, 5, 16)},
                          DumpedPath{.destination = NodeKind::ChannelAdapter,
                                     .outbound = record(kNode1Guid, 5, kNode2Guid, 9, 2, 5, 16),
                                     .inbound = record(kNode2Guid, 9, kNode1Guid, 5, 6, 5, 16)}));
  // An LMC that the base LID contradicts counts for nothing.
  port.lmc = 7;
  EXPECT_EQ(parse_path_dump(kText, "f", port).value.paths.size(), 2U);
}

TEST(AcmFilesDump, TheWaysOfAPortThereAndBack) {
  const auto parsed = parse_path_dump(kFabric, "f", own(kNode1Guid, 2));
  EXPECT_THAT(texts(parsed), IsEmpty());
  EXPECT_EQ(parsed.value.ports, 4U);
  EXPECT_EQ(parsed.value.unreachable, 1U);
  EXPECT_EQ(parsed.value.foreign_lids, 1U);
  const mad::PathRecord self = record(kNode1Guid, 2, kNode1Guid, 2, 0, 5, 16);
  EXPECT_THAT(
      parsed.value.paths,
      ElementsAre(
          DumpedPath{.destination = NodeKind::Switch,
                     .outbound = record(kNode1Guid, 2, kSwitchGuid, 1, 0, 4, 7),
                     .inbound = record(kSwitchGuid, 1, kNode1Guid, 2, 5, 4, 7)},
          DumpedPath{.destination = NodeKind::ChannelAdapter, .outbound = self, .inbound = self},
          DumpedPath{.destination = NodeKind::ChannelAdapter,
                     .outbound = record(kNode1Guid, 2, kNode2Guid, 4, 1, 5, 16),
                     .inbound = record(kNode2Guid, 4, kNode1Guid, 2, 9, 5, 16)},
          DumpedPath{.destination = NodeKind::Router,
                     .outbound = record(kNode1Guid, 2, kRouterGuid, 49151, 2, 3, 12),
                     .inbound = std::nullopt}));
}

TEST(AcmFilesDump, ASwitchHasWaysToo) {
  const auto parsed = parse_path_dump(kFabric, "f", own(kSwitchGuid, 1));
  EXPECT_THAT(texts(parsed), IsEmpty());
  ASSERT_EQ(parsed.value.paths.size(), 3U);
  EXPECT_EQ(parsed.value.paths[2].outbound, record(kSwitchGuid, 1, kNode2Guid, 4, 0, 4, 7));
  EXPECT_EQ(parsed.value.paths[2].inbound, record(kNode2Guid, 4, kSwitchGuid, 1, 0, 4, 7));
}

TEST(AcmFilesDump, CarriageReturnsAndNoLastNewlineChangeNothing) {
  std::string text;
  for (const char c : kFabric.substr(0, kFabric.size() - 1)) {
    text += c == '\n' ? "\r\n" : std::string(1, c);
  }
  EXPECT_EQ(parse_path_dump(text, "f", own(kNode1Guid, 2)),
            parse_path_dump(kFabric, "f", own(kNode1Guid, 2)));
}

TEST(AcmFilesDump, APortThatIsNotThere) {
  const auto parsed = parse_path_dump(kFabric, "f", own(0x99, 2));
  EXPECT_THAT(parsed.value.paths, IsEmpty());
  ASSERT_EQ(parsed.problems.count, 1U);
  EXPECT_TRUE(parsed.problems.first[0].is(Errc::NotFound));
  EXPECT_THAT(
      texts(parsed),
      ElementsAre("f:22: port 0x0000000000000099 with base LID 2 is not in the 4 ports of this "
                  "dump: is it of this fabric?"));
  EXPECT_THAT(
      texts(parse_path_dump("", "f", own(0x99, 2))),
      ElementsAre("f:0: port 0x0000000000000099 with base LID 2 is not in the 0 ports of this "
                  "dump: is it of this fabric?"));
}

TEST(AcmFilesDump, ADumpFromBeforeTheLidChanged) {
  for (const std::uint16_t lid : {std::uint16_t{77}, std::uint16_t{0}, std::uint16_t{0xFFFF}}) {
    const auto parsed = parse_path_dump(kFabric, "f", own(kNode1Guid, lid));
    EXPECT_THAT(parsed.value.paths, IsEmpty());
    ASSERT_EQ(parsed.problems.count, 1U);
    EXPECT_TRUE(parsed.problems.first[0].is(Errc::Stale));
    EXPECT_EQ(parsed.problems.first[0].what(),
              "f:7: port 0x0002c90000000021 has base LID 2 here and " + std::to_string(lid) +
                  " at the port: the dump is old; dump again");
  }
}

TEST(AcmFilesDump, AWrongPortNamesFileLineValueAndWhatToDo) {
  const auto parsed = parse_path_dump(
      "0x0001 : 0 : 4 : 7\n"
      "Channel Adapter 0x21, base LID 2, \"n1\", port 1\n"
      "0x0002 : 0 : 4 : 7\n"
      "Channel 0x22, base LID 3, \"n2\", port 1\n"
      "what belongs to a wrong port is not read\n"
      "Switch 0x23 base LID 4, \"n2\", port 1\n"
      "Switch 0x24, base LID 49152, \"n2\", port 1\n"
      "Switch 0x25, base LID 0, \"n2\", port 1\n"
      "Switch 0x0, base LID 5, \"n2\", port 1\n"
      "Switch 0x12345678901234567, base LID 5, \"n2\", port 1\n"
      "Router 0x26, base LID 2, \"n2\", port 1\n"
      "0x0002 : 9 : 4 : 7\n",
      "f", own(0x21, 2));
  for (const Error& error : parsed.problems.first) {
    EXPECT_TRUE(error.is(Errc::InvalidArgument));
  }
  EXPECT_THAT(
      texts(parsed),
      ElementsAre(
          "f:4: the line of a port is 'TYPE 0xGUID, base LID N, \"...\", port N': its rows are "
          "left "
          "out; dump again",
          "f:6: the line of a port is 'TYPE 0xGUID, base LID N, \"...\", port N': its rows are "
          "left "
          "out; dump again",
          "f:7: base LID '49152': 1 to 49151 are possible; dump again when the port has a LID",
          "f:8: base LID '0': 1 to 49151 are possible; dump again when the port has a LID",
          "f:9: port GUID '0x0': up to 16 hexadecimal digits and not 0 are possible; dump again",
          "f:10: port GUID '0x12345678901234567': up to 16 hexadecimal digits and not 0 are "
          "possible; "
          "dump again",
          "f:11: base LID 2 was in line 2 already: its rows are left out; dump again",
          "f:1: '0x0001' before the first port: is this a dump of full path records?"));
  ASSERT_EQ(parsed.value.paths.size(), 1U);
  EXPECT_EQ(parsed.value.paths[0].outbound, record(0x21, 2, 0x21, 2, 0, 4, 7));
}

TEST(AcmFilesDump, AWrongRowNamesFileLineValueAndWhatToDo) {
  const auto parsed = parse_path_dump(
      "Switch 0x22, base LID 3, \"s\", port 0\n"
      "0x0002 : 0 : 4 : 7\n"
      "0x0009 : of others only the LID is read\n"
      "nonsense\n"
      "Channel Adapter 0x21, base LID 2, \"n\", port 1\n"
      "0x0003 : 16 : 4 : 7\n"
      "0x0003 : 0 : 6 : 7\n"
      "0x0003 : 0 : 4 : 26\n"
      "0x0003 : 0 : 4\n"
      "0x0003 : 0 : 4 : 7 : 1\n"
      "0x0003 : 0 : 4 : x\n"
      "0x0003 : 0 : 300 : 7\n"
      "0x0003\n"
      "0xC000 : 0 : 4 : 7\n"
      "0x0003 : 1 : 4 : 7\n"
      "0x0003 : 2 : 4 : 7\n",
      "f", own(0x21, 2));
  EXPECT_THAT(
      texts(parsed),
      ElementsAre(
          "f:4: 'nonsense': a row is 'LID : SL : MTU : RATE' with a LID of 1 to 0xbfff; dump again",
          "f:6: SL 16, MTU code 4, rate code 7: 0 to 15, 1 to 5, 2 to 25 are possible; dump again",
          "f:7: SL 0, MTU code 6, rate code 7: 0 to 15, 1 to 5, 2 to 25 are possible; dump again",
          "f:8: SL 0, MTU code 4, rate code 26: 0 to 15, 1 to 5, 2 to 25 are possible; dump again",
          "f:9: '4' behind the LID: three numbers 'SL : MTU : RATE' or UNREACHABLE; dump again",
          "f:10: '7' behind the LID: three numbers 'SL : MTU : RATE' or UNREACHABLE; dump again",
          "f:11: 'x' behind the LID: three numbers 'SL : MTU : RATE' or UNREACHABLE; dump again",
          "f:12: '300' behind the LID: three numbers 'SL : MTU : RATE' or UNREACHABLE; dump again",
          "f:13: '0x0003': a row is 'LID : SL : MTU : RATE' with a LID of 1 to 0xbfff; dump again",
          "f:14: '0xC000': a row is 'LID : SL : MTU : RATE' with a LID of 1 to 0xbfff; dump again",
          "f:16: a second row to the same LID: the first one counts; dump again"));
  ASSERT_EQ(parsed.value.paths.size(), 1U);
  EXPECT_EQ(parsed.value.paths[0].outbound, record(0x21, 2, 0x22, 3, 1, 4, 7));
  EXPECT_EQ(parsed.value.paths[0].inbound, record(0x22, 3, 0x21, 2, 0, 4, 7));
}

/// Fabrics of random ways, written in the form of OpenSM's dump, against the ways themselves.
TEST(AcmFilesDump, AnyFabric) {
  Rng rng(wireup::test::seed(11));
  for (std::uint64_t round = 0; round < wireup::test::rounds(50); ++round) {
    std::set<std::uint16_t> lids;
    while (lids.size() < 2 + rng.below(30)) {
      lids.insert(static_cast<std::uint16_t>(1 + rng.below(0xBFFF)));
    }
    struct Way {
      std::uint8_t sl, mtu, rate;
    };
    std::map<std::pair<std::uint16_t, std::uint16_t>, Way> ways;
    std::string text;
    std::array<char, 128> line{};
    for (const std::uint16_t from : lids) {
      std::snprintf(line.data(), line.size(), "%s 0x%016llx, base LID %u, \"node %u\", port %u\n",
                    rng.below(2) == 0 ? "Channel Adapter" : "Switch", 0x1000ULL + from, from, from,
                    from % 3U);
      text += line.data();
      text += "# LID  : SL : MTU : RATE\n";
      for (const std::uint16_t to : lids) {
        if (rng.below(5) == 0) {
          std::snprintf(line.data(), line.size(), "0x%04X : UNREACHABLE\n", to);
        } else {
          const Way way{.sl = static_cast<std::uint8_t>(rng.below(16)),
                        .mtu = static_cast<std::uint8_t>(1 + rng.below(5)),
                        .rate = static_cast<std::uint8_t>(2 + rng.below(24))};
          ways[{from, to}] = way;
          std::snprintf(line.data(), line.size(), "0x%04X : %-2u : %-3u : %-2u\n", to, way.sl,
                        way.mtu, way.rate);
        }
        text += line.data();
      }
      text += "\n";
    }
    for (const std::uint16_t self : lids) {
      const auto parsed = parse_path_dump(text, "f", own(0x1000ULL + self, self));
      ASSERT_THAT(texts(parsed), IsEmpty());
      auto path = parsed.value.paths.begin();
      for (const std::uint16_t peer : lids) {
        const auto there = ways.find({self, peer});
        if (there == ways.end()) {
          continue;
        }
        ASSERT_NE(path, parsed.value.paths.end());
        EXPECT_EQ(path->outbound, record(0x1000ULL + self, self, 0x1000ULL + peer, peer,
                                         there->second.sl, there->second.mtu, there->second.rate));
        const auto back = ways.find({peer, self});
        ASSERT_EQ(path->inbound.has_value(), back != ways.end());
        if (back != ways.end()) {
          EXPECT_EQ(*path->inbound, record(0x1000ULL + peer, peer, 0x1000ULL + self, self,
                                           back->second.sl, back->second.mtu, back->second.rate));
        }
        ++path;
      }
      EXPECT_EQ(path, parsed.value.paths.end());
    }
  }
}

}  // namespace
}  // namespace wireup::acm
