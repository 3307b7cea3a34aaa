// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "acm/files/hosts.hpp"
#include "acm/files/port_addresses.hpp"

namespace wireup::acm {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<std::string> texts(const Parsed<T>& parsed) {
  std::vector<std::string> all;
  for (const Error& error : parsed.problems.first) {
    EXPECT_TRUE(error.is(Errc::InvalidArgument));
    all.emplace_back(error.what());
  }
  EXPECT_EQ(all.size(), parsed.problems.count);
  return all;
}

mad::AcmAddress name(std::string_view text) {
  auto address = mad::AcmAddress::name(text);
  EXPECT_TRUE(address.has_value());
  return *address;
}

const Gid kGid(Gid::Bytes{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xC9, 3, 0, 0, 0, 1});

TEST(AcmFilesPortAddresses, NamesOfPorts) {
  const auto parsed = parse_port_addresses(
      "# address device port pkey\n"
      "node31 mlx5_0 1 default\r\n"
      "node31-2\tmlx5_1\t254\t0x8001\n"
      "  NODE31-3 mlx5_1 2 7fff # a remark\n"
      "other mlx5_1 2 DEFAULT",
      "f", IpAddresses::Refused);
  EXPECT_TRUE(parsed.problems.empty());
  EXPECT_THAT(
      parsed.value,
      ElementsAre(
          PortAddress{.address = name("node31"), .device = "mlx5_0", .port = 1, .pkey = {}},
          PortAddress{
              .address = name("node31-2"), .device = "mlx5_1", .port = 254, .pkey = PKey(0x8001)},
          PortAddress{
              .address = name("NODE31-3"), .device = "mlx5_1", .port = 2, .pkey = PKey(0x7FFF)},
          PortAddress{.address = name("other"), .device = "mlx5_1", .port = 2, .pkey = {}}));
}

TEST(AcmFilesPortAddresses, ANameHasUpTo64Bytes) {
  const std::string longest(64, 'n');
  const auto parsed = parse_port_addresses(longest + " d 1 default\n" + longest + "n d 1 default\n",
                                           "f", IpAddresses::Refused);
  ASSERT_EQ(parsed.value.size(), 1U);
  EXPECT_EQ(parsed.value.front().address, name(longest));
  EXPECT_THAT(texts(parsed),
              ElementsAre("f:2: the name '" + std::string(32, 'n') +
                          "...' has 65 bytes, 64 are possible: shorten it on every node"));
}

TEST(AcmFilesPortAddresses, IpAddressesWhereTheyAreAllowed) {
  constexpr std::string_view kText = "10.0.0.31 mlx5_0 1 default\nfe80::31 mlx5_0 1 default\n";
  const auto allowed = parse_port_addresses(kText, "f", IpAddresses::Allowed);
  EXPECT_TRUE(allowed.problems.empty());
  ASSERT_EQ(allowed.value.size(), 2U);
  EXPECT_EQ(allowed.value[0].address, mad::AcmAddress::ipv4({10, 0, 0, 31}));
  EXPECT_EQ(allowed.value[1].address,
            mad::AcmAddress::ipv6({0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x31}));

  const auto refused = parse_port_addresses(kText, "f", IpAddresses::Refused);
  EXPECT_TRUE(refused.value.empty());
  EXPECT_THAT(
      texts(refused),
      ElementsAre("f:1: IP address '10.0.0.31': the interfaces have it already; take the line "
                  "away, or set support_ips_in_addr_cfg 1",
                  "f:2: IP address 'fe80::31': the interfaces have it already; take the line "
                  "away, or set support_ips_in_addr_cfg 1"));
}

TEST(AcmFilesPortAddresses, AWrongLineNamesFileLineValueAndWhatToDo) {
  const auto parsed = parse_port_addresses(
      "n mlx5_0 1\n"
      "n mlx5_0 0 default\n"
      "n mlx5_0 255 default\n"
      "n mlx5_0 1 0x10000\n"
      "n mlx5_0 1 0x8000\n"
      "n mlx5_0 1 none\n"
      "n mlx5_0 1 default more\n"
      "10.0.0.256 mlx5_0 1 default\n"
      "fe80::1::2 mlx5_0 1 default\n"
      " # n 1 default\n"
      "n\x01 mlx5_0 1 default\n"
      "n " +
          std::string(64, 'd') + " 1 default\n",
      "f", IpAddresses::Allowed);
  EXPECT_TRUE(parsed.value.empty());
  EXPECT_THAT(
      texts(parsed),
      ElementsAre(
          "f:1: less than four words after 'n': write 'address device port pkey'",
          "f:2: port '0': use a number from 1 to 254",
          "f:3: port '255': use a number from 1 to 254",
          "f:4: P_Key '0x10000': use default, or hexadecimal 0x1 to 0xffff",
          "f:5: P_Key '0x8000' is of partition 0, which is none: use default, or another one",
          "f:6: P_Key 'none': use default, or hexadecimal 0x1 to 0xffff",
          "f:7: 'more' is one word too many: take it away, or put a # before it",
          "f:8: '10.0.0.256' is neither an IPv4 address nor a name: correct the address",
          "f:9: 'fe80::1::2' is neither an IPv6 address nor a name: correct the address",
          "f:10: '#' is no address: the # of a comment must be the first character of its line",
          "f:11: the name 'n?' has a control character: take it out",
          "f:12: device '" + std::string(32, 'd') +
              "...' has 64 bytes, a name has at most 63: correct it"));
}

TEST(AcmFilesPortAddresses, NamesThatOnlyLookLikeAddresses) {
  const auto parsed = parse_port_addresses(
      "node.1 d 1 default\n12 d 1 default\nfe80::1%ib0 d 1 default\nn\xC3\xB6"
      "de d 1 default\n",
      "f", IpAddresses::Refused);
  EXPECT_TRUE(parsed.problems.empty());
  ASSERT_EQ(parsed.value.size(), 4U);
  EXPECT_EQ(parsed.value[1].address, name("12"));
  EXPECT_EQ(parsed.value[3].address, name("n\xC3\xB6"
                                          "de"));
}

TEST(AcmFilesHosts, AddressesOfGids) {
  const auto parsed = parse_hosts(
      "# address GID\n"
      "node1 fe80::2:c903:0:1\n"
      "10.0.0.1   FE80:0:0:0:0002:C903:0000:0001\r\n"
      "fd00::1\tfe80::2:c903:0:1 # the same port\n"
      "node1 2001:db8::7",
      "f");
  EXPECT_TRUE(parsed.problems.empty());
  const Gid other(Gid::Bytes{0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7});
  EXPECT_THAT(parsed.value,
              ElementsAre(HostEntry{.address = name("node1"), .gid = kGid},
                          HostEntry{.address = mad::AcmAddress::ipv4({10, 0, 0, 1}), .gid = kGid},
                          HostEntry{.address = mad::AcmAddress::ipv6(
                                        {0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}),
                                    .gid = kGid},
                          HostEntry{.address = name("node1"), .gid = other}));
}

TEST(AcmFilesHosts, AWrongLineNamesFileLineValueAndWhatToDo) {
  const auto parsed = parse_hosts(
      "node1\n"
      "node2 node3\n"
      "node3 ::\n"
      "node4 ff15::1\n"
      "node5 fe80::1 fe80::2\n"
      "node6 10.0.0.1\n"
      "1.2.3 fe80::1\n"
      "good fe80::2:c903:0:1\n",
      "hosts.data");
  EXPECT_THAT(
      texts(parsed),
      ElementsAre(
          "hosts.data:1: 'node1' without a GID: write 'address GID'",
          "hosts.data:2: 'node3' is no GID: write it like an IPv6 address, fe80::2:c903:0:1",
          "hosts.data:3: '::' is the GID of no port: use that of the port that has the address",
          "hosts.data:4: 'ff15::1' is the GID of no port: use that of the port that has the "
          "address",
          "hosts.data:5: 'fe80::2' is one word too many: take it away, or put a # before it",
          "hosts.data:6: '10.0.0.1' is no GID: write it like an IPv6 address, fe80::2:c903:0:1",
          "hosts.data:7: '1.2.3' is neither an IPv4 address nor a name: correct the address"));
  EXPECT_THAT(parsed.value, ElementsAre(HostEntry{.address = name("good"), .gid = kGid}));
}

}  // namespace
}  // namespace wireup::acm
