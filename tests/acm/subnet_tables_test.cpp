// SPDX-License-Identifier: BSD-3-Clause
#include "acm/identity/subnet_tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace wireup::acm {
namespace {

constexpr std::uint64_t kPrefix = 0xFE80000000000000;

template <std::size_t N>
void put_text(std::array<char, N>& to, std::string_view text) {
  std::copy(text.begin(), text.end(), to.begin());
}

mad::NodeRecord node(std::uint8_t type, std::uint64_t port_guid, std::string_view description) {
  mad::NodeRecord record;
  record.node_type = type;
  record.port_guid = Guid(port_guid);
  record.local_port = 2;
  put_text(record.description, description);
  return record;
}

TEST(SubnetTables, OnlyAdaptersArePorts) {
  const std::vector<mad::NodeRecord> records = {
      node(mad::kNodeChannelAdapter, 0x11, "node1 HCA-1"), node(mad::kNodeSwitch, 0x22, "leaf1"),
      node(mad::kNodeRouter, 0x33, "router"), node(mad::kNodeChannelAdapter, 0, "nobody")};
  const auto ports = described_ports(records, kPrefix);
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0], (DescribedPort{Gid::make(kPrefix, Guid(0x11)), 2, "node1 HCA-1"}));
}

TEST(SubnetTables, ADescriptionMayFillItsField) {
  const auto ports = described_ports(
      std::vector<mad::NodeRecord>{node(mad::kNodeChannelAdapter, 1, std::string(64, 'x'))},
      kPrefix);
  EXPECT_EQ(ports[0].description, std::string(64, 'x'));
}

TEST(SubnetTables, ServicesOfPorts) {
  mad::ServiceRecord record;
  record.service_gid = Gid::make(kPrefix, Guid(0x11));
  record.pkey = PKey(0xFFFF);
  put_text(record.name, kAddressTranslationService);
  record.data[12] = 10;
  record.data[15] = 7;
  record.data[16] = 99;
  const mad::ServiceRecord nobody;
  const auto services = registered_services(std::vector<mad::ServiceRecord>{record, nobody});
  ASSERT_EQ(services.size(), 1U);
  EXPECT_EQ(services[0].name, kAddressTranslationService);
  EXPECT_EQ(services[0].gid, record.service_gid);
  EXPECT_EQ(match_service(mad::AcmAddress::ipv4({10, 0, 0, 7}), PKey(0xFFFF), services).value(),
            record.service_gid);
}

}  // namespace
}  // namespace wireup::acm
