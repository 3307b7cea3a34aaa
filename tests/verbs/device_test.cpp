// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <string>

#include "verbs/device.hpp"
#include "verbs/fake_verbs.hpp"
#include "verbs/objects.hpp"

namespace wireup::verbs {
namespace {

Error error_of(const PortSelector& selector) {
  const auto port = open_port(selector, FakeVerbs::ops());
  EXPECT_FALSE(port);
  return port ? Error{} : port.error();
}

TEST(PortSelector, TakesADeviceAndAPort) {
  EXPECT_EQ(PortSelector::parse("")->device, "");
  EXPECT_EQ(PortSelector::parse("mlx5_0")->device, "mlx5_0");
  EXPECT_FALSE(PortSelector::parse("mlx5_0")->port.has_value());
  EXPECT_EQ(PortSelector::parse("mlx5_0:2")->device, "mlx5_0");
  EXPECT_EQ(PortSelector::parse("mlx5_0:2")->port, 2);
  for (const char* wrong : {":1", "a:", "a:0", "a:256", "a:x", "a:1x", "a: 1"}) {
    const auto parsed = PortSelector::parse(wrong);
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_TRUE(parsed.error().is(Errc::InvalidArgument));
    EXPECT_NE(parsed.error().what().find(wrong), std::string_view::npos);
  }
}

TEST(OpenPort, TakesTheFirstActiveInfiniBandPort) {
  FakeVerbs fake;
  FakeVerbs::Port down{.state = IBV_PORT_DOWN};
  FakeVerbs::Port ethernet{.link_layer = IBV_LINK_LAYER_ETHERNET};
  fake.devices = {{"fake0", {down, ethernet}}, {"fake1", {down, FakeVerbs::Port{.lid = 42}}}};
  const auto port = open_port({}, FakeVerbs::ops());
  ASSERT_TRUE(port) << port.error().what();
  EXPECT_EQ(port->device.name(), "fake1");
  EXPECT_EQ(port->info.port, 2);
  EXPECT_EQ(port->info.lid, Lid(42));
  EXPECT_EQ(fake.live["context"], 1U);
}

TEST(OpenPort, ReadsThePort) {
  FakeVerbs fake;
  fake.devices[0].ports[0].pkeys = {0x7FFF, 0, 0x8123, 0};
  const auto port = open_port({"fake0", {}}, FakeVerbs::ops());
  ASSERT_TRUE(port);
  const PortInfo& info = port->info;
  EXPECT_EQ(info.gid, Gid::make(0xFE80'0000'0000'0000, Guid(1)));
  EXPECT_EQ(info.port_guid, Guid(1));
  EXPECT_EQ(info.node_guid, Guid(0x0102030405060708));
  EXPECT_EQ(info.active_mtu, 5);
  EXPECT_EQ(info.active_rate, 16);  // 4x EDR is 100 Gb/s
  ASSERT_EQ(info.pkeys.size(), 3U);
  EXPECT_EQ(info.pkeys[2], PKey(0x8123));
  EXPECT_EQ(info.pkey_index(PKey(0x8123)), 2);
  EXPECT_EQ(info.pkey_index(PKey(0x0123)), 2);  // of the same partition
  EXPECT_EQ(info.pkey_index(PKey(0xFFFF)), 0);
  EXPECT_FALSE(info.pkey_index(PKey(0x8124)).has_value());
  EXPECT_FALSE(info.pkey_index(PKey(0)).has_value());
}

TEST(OpenPort, WithoutDevicesSaysSo) {
  FakeVerbs fake;
  fake.devices.clear();
  const Error error = error_of({});
  EXPECT_TRUE(error.is(Errc::NoDevice));
  EXPECT_NE(error.what().find("no RDMA device"), std::string_view::npos);
}

TEST(OpenPort, AWrongNameListsTheRightOnes) {
  FakeVerbs fake;
  fake.devices = {{"fake0", {FakeVerbs::Port{}}}, {"fake1", {FakeVerbs::Port{}}}};
  const Error error = error_of({"fake7", {}});
  EXPECT_TRUE(error.is(Errc::NoDevice));
  EXPECT_EQ(error.what(), "no RDMA device 'fake7'; this host has: fake0, fake1");
  EXPECT_TRUE(error_of({"fake0", 2}).is(Errc::NoDevice));
}

TEST(OpenPort, AnInactivePortNamesItselfAndTheSubnetManager) {
  FakeVerbs fake;
  fake.devices[0].ports[0].state = IBV_PORT_INIT;
  for (const PortSelector& selector :
       {PortSelector{}, PortSelector{"fake0", {}}, PortSelector{"fake0", 1}}) {
    const Error error = error_of(selector);
    EXPECT_TRUE(error.is(Errc::NoSubnetManager));
    const std::string text(error.what());
    for (const char* part : {"fake0 port 1", "INIT", "OpenSM"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
  }
}

TEST(OpenPort, AnEthernetPortIsNotUsed) {
  FakeVerbs fake;
  fake.devices[0].ports[0].link_layer = IBV_LINK_LAYER_ETHERNET;
  EXPECT_TRUE(error_of({}).is(Errc::Unsupported));
}

TEST(Cq, IsClampedToTheDevice) {
  FakeVerbs fake;
  const auto device = Device::open("", FakeVerbs::ops());
  ASSERT_TRUE(device);
  EXPECT_EQ(Cq::open(*device, 100000)->entries(), 4095U);
  EXPECT_EQ(Cq::open(*device, 0)->entries(), 1U);
}

}  // namespace
}  // namespace wireup::verbs
