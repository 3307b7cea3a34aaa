// SPDX-License-Identifier: BSD-3-Clause
//
// Which port is meant by a name or an IP address: the kernel's neighbour table by its bytes, and
// what is matched with the subnet's records.
#include <gtest/gtest.h>

#include "acm/identity/matching.hpp"
#include "acm/identity/neighbours.hpp"
#include "acm/neighbour_bytes.hpp"

namespace wireup::acm {
namespace {

using test::append;
using test::Bytes;
using test::end_of_table;
using test::ipoib_address;
using test::joined;
using test::neighbour;
using test::netlink_message;

constexpr std::uint64_t kPrefix = 0xFE80000000000000;

Gid gid(std::uint64_t guid) {
  return Gid::make(kPrefix, Guid(guid));
}

mad::AcmAddress ipv4(std::uint8_t last) {
  return mad::AcmAddress::ipv4({10, 77, 0, last});
}

TEST(Neighbours, TheRequestByItsBytes) {
  const auto bytes = neighbour_request(0x01020304);
  Bytes expected;
  append(expected, std::uint32_t{28});
  append(expected, std::uint16_t{30});      // RTM_GETNEIGH
  append(expected, std::uint16_t{0x0301});  // NLM_F_REQUEST | NLM_F_DUMP
  append(expected, std::uint32_t{0x01020304});
  expected.resize(28);
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), expected);
}

TEST(Neighbours, TakesTheGidOfTheHardwareAddress) {
  std::vector<Neighbour> found;
  Bytes ipv6 = {0xFE, 0x80};
  ipv6.resize(16);
  ipv6[15] = 9;
  const auto is_end = parse_neighbours(joined({neighbour(7, 2, {10, 77, 0, 2}, ipoib_address(2)),
                                               neighbour(7, 10, ipv6, ipoib_address(9))}),
                                       7, found);
  ASSERT_TRUE(is_end.has_value()) << is_end.error().what();
  EXPECT_FALSE(*is_end);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], (Neighbour{ipv4(2), gid(2)}));
  std::array<std::uint8_t, 16> address{};
  std::copy(ipv6.begin(), ipv6.end(), address.begin());
  EXPECT_EQ(found[1], (Neighbour{mad::AcmAddress::ipv6(address), gid(9)}));
  EXPECT_TRUE(parse_neighbours(end_of_table(7), 7, found).value());
  EXPECT_EQ(found.size(), 2U);
}

TEST(Neighbours, LeavesOutWhatIsOfNoUse) {
  std::vector<Neighbour> found;
  Bytes multicast = ipoib_address(2);
  multicast[4] = 0xFF;
  const Bytes datagram = joined({
      neighbour(7, 2, {10, 77, 0, 2}, {2, 0, 0, 0, 0, 1}),      // Ethernet
      neighbour(7, 2, {10, 77, 0, 3}, ipoib_address(3), 0x01),  // NUD_INCOMPLETE
      neighbour(7, 2, {10, 77, 0, 4}, ipoib_address(4), 0x20),  // NUD_FAILED
      neighbour(7, 2, {224, 0, 0, 1}, multicast, 0x40),         // NUD_NOARP
      neighbour(7, 2, {10, 77, 0, 5}, Bytes(20)),               // no GID
      neighbour(7, 7, {1, 2, 3, 4, 5, 6}, ipoib_address(5)),    // AF_BRIDGE
      neighbour(7, 10, {10, 77, 0, 5}, ipoib_address(5)),       // 4 bytes of IPv6
      neighbour(6, 2, {10, 77, 0, 6}, ipoib_address(6)),        // an earlier question
      netlink_message(24, 7, Bytes(12)),                        // RTM_NEWROUTE
      neighbour(7, 2, {10, 77, 0, 7}, ipoib_address(7), 0x04),  // NUD_STALE is still true
  });
  ASSERT_FALSE(parse_neighbours(datagram, 7, found).value());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].address, ipv4(7));
  EXPECT_FALSE(parse_neighbours(end_of_table(6), 7, found).value()) << "another's end";
}

TEST(Neighbours, ARefusalOfTheKernel) {
  std::vector<Neighbour> found;
  Bytes payload;
  append(payload, std::int32_t{-1});
  append(payload, std::uint32_t{28});
  const auto refused = parse_neighbours(netlink_message(2, 7, payload), 7, found);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().is(Errc::NoPermission));
  EXPECT_TRUE(
      parse_neighbours(netlink_message(2, 7, Bytes(2)), 7, found).error().is(Errc::Malformed));
}

TEST(Neighbours, LengthsThatLie) {
  const Bytes good = joined({neighbour(7, 2, {10, 77, 0, 2}, ipoib_address(2)), end_of_table(7)});
  // No cut and no byte leads outside of the datagram: sanitizers watch, and the result is one.
  for (std::size_t size = 0; size < good.size(); ++size) {
    std::vector<Neighbour> found;
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    static_cast<void>(parse_neighbours(cut, 7, found));
    EXPECT_LE(found.size(), 1U);
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const unsigned value : {0U, 1U, 3U, 4U, 15U, 16U, 17U, 28U, 127U, 255U}) {
      std::vector<Neighbour> found;
      Bytes changed = good;
      changed[at] = static_cast<std::uint8_t>(value);
      static_cast<void>(parse_neighbours(changed, 7, found));
      EXPECT_LE(found.size(), 1U);
    }
  }
  std::vector<Neighbour> found;
  Bytes long_one = good;
  long_one[1] = 1;
  EXPECT_TRUE(parse_neighbours(long_one, 7, found).error().is(Errc::Malformed));
  Bytes short_one = good;
  short_one[0] = 15;
  EXPECT_TRUE(parse_neighbours(short_one, 7, found).error().is(Errc::Malformed));
  Bytes attribute = good;
  attribute[28] = 3;
  EXPECT_TRUE(parse_neighbours(attribute, 7, found).error().is(Errc::Malformed));
}

const std::vector<DescribedPort> kPorts = {
    {gid(0x11), 1, "node1 HCA-1"},  {gid(0x21), 1, "node2 mlx5_0"},
    {gid(0x22), 1, "node2 mlx5_1"}, {gid(0x31), 1, "node3 mlx5_0"},
    {gid(0x32), 2, "node3 mlx5_0"}, {gid(0x41), 1, "node4"},
    {gid(0x51), 1, "node4 mlx5_0"}, {gid(0x61), 1, ""},
    {gid(0x71), 1, "spine HCA-1"},  {gid(0x71), 1, "spine HCA-1"},
};

TEST(MatchDescription, TheWholeOfItOrItsFirstWord) {
  EXPECT_EQ(match_description("node1 HCA-1", kPorts).value(), gid(0x11));
  EXPECT_EQ(match_description("node1", kPorts).value(), gid(0x11));
  EXPECT_EQ(match_description("NODE1 hca-1", kPorts).value(), gid(0x11));
  EXPECT_EQ(match_description("node2 mlx5_1", kPorts).value(), gid(0x22));
  EXPECT_EQ(match_description("node4", kPorts).value(), gid(0x41)) << "the whole counts first";
  EXPECT_EQ(match_description("spine", kPorts).value(), gid(0x71)) << "one port, told twice";
  EXPECT_EQ(match_description("node", kPorts).value(), std::nullopt);
  EXPECT_EQ(match_description("node10", kPorts).value(), std::nullopt);
  EXPECT_EQ(match_description("HCA-1", kPorts).value(), std::nullopt);
  EXPECT_EQ(match_description("node1", {}).value(), std::nullopt);
}

TEST(MatchDescription, SeveralPortsAreNamed) {
  for (const char* name : {"node2", "node3", "node3 mlx5_0"}) {
    const auto found = match_description(name, kPorts);
    ASSERT_FALSE(found.has_value()) << name;
    EXPECT_TRUE(found.error().is(Errc::InvalidArgument));
    EXPECT_NE(found.error().what().find("2 ports"), std::string_view::npos);
  }
  const std::string text(match_description("node2", kPorts).error().what());
  EXPECT_NE(text.find("node2 mlx5_0"), std::string::npos) << text;
  EXPECT_NE(text.find("node2 mlx5_1"), std::string::npos) << text;
  EXPECT_NE(text.find(to_text(gid(0x22)).data()), std::string::npos) << text;
}

TEST(MatchDescription, HostileTextsStayReadable) {
  const std::vector<DescribedPort> ports = {{gid(1), 1, "node1 \x1b[31m"}, {gid(2), 1, "node1 \n"}};
  const std::string text(match_description("node1", ports).error().what());
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

RegisteredService service(std::string name, std::uint64_t guid, std::uint16_t pkey,
                          const Bytes& data) {
  RegisteredService result{std::move(name), gid(guid), PKey(pkey), {}};
  std::copy(data.begin(), data.end(), result.data.begin());
  return result;
}

TEST(MatchService, AnIpAddressOfTheAddressTranslationService) {
  const std::string ats(kAddressTranslationService);
  const std::vector<RegisteredService> services = {
      service(ats, 0x11, 0xFFFF, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 1}),
      service(ats, 0x22, 0x8001, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 2}),
      service(ats, 0x33, 0xFFFF, {0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 3}),
      service("other", 0x44, 0xFFFF, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 4}),
      service(ats, 0x55, 0xFFFF, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 5}),
      service(ats, 0x56, 0xFFFF, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0, 5}),
  };
  const PKey pkey(0xFFFF);
  EXPECT_EQ(match_service(ipv4(1), pkey, services).value(), gid(0x11));
  EXPECT_EQ(match_service(ipv4(2), pkey, services).value(), std::nullopt) << "another partition";
  EXPECT_EQ(match_service(ipv4(2), PKey(0x0001), services).value(), gid(0x22));
  EXPECT_EQ(match_service(ipv4(3), pkey, services).value(), std::nullopt) << "that is IPv6";
  EXPECT_EQ(match_service(ipv4(4), pkey, services).value(), std::nullopt) << "another service";
  std::array<std::uint8_t, 16> ipv6{0xFD};
  ipv6[12] = 10;
  ipv6[13] = 77;
  ipv6[15] = 3;
  EXPECT_EQ(match_service(mad::AcmAddress::ipv6(ipv6), pkey, services).value(), gid(0x33));
  EXPECT_TRUE(match_service(ipv4(5), pkey, services).error().is(Errc::InvalidArgument));
  EXPECT_EQ(match_service(mad::AcmAddress::name("other").value(), pkey, services).value(),
            gid(0x44));
  EXPECT_EQ(match_service(mad::AcmAddress::name("Other").value(), pkey, services).value(),
            std::nullopt);
  EXPECT_EQ(match_service(mad::AcmAddress::gid(gid(0x11)), pkey, services).value(), std::nullopt);
}

}  // namespace
}  // namespace wireup::acm
