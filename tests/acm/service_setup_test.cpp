// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/service_setup.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "acm/server/client_service.hpp"
#include "acm/temporary_directory.hpp"

namespace wireup::acm {
namespace {

using test::TemporaryDirectory;

class ServiceSetupTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::string path = directory_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  TemporaryDirectory directory_;
};

mad::AcmAddress name(const char* text) {
  return *mad::AcmAddress::name(text);
}

TEST_F(ServiceSetupTest, AddressesArePutTogetherByPortAndPartition) {
  const auto setup = read_setup(
      {write("options", "support_ips_in_addr_cfg 1\n"), write("addresses",
                                                              "node7 mlx5_0 1 default\n"
                                                              "10.0.0.7 mlx5_0 1 default\n"
                                                              "node7-job mlx5_0 1 0x8001\n"
                                                              "node7-2 mlx5_0 2 default\n"
                                                              "node7 mlx5_0 1 default\n")});
  ASSERT_TRUE(setup) << setup.error().what();
  EXPECT_TRUE(setup->problems.empty());
  ASSERT_EQ(setup->ports.size(), 3U);
  EXPECT_EQ(setup->ports[0].device, "mlx5_0");
  EXPECT_EQ(setup->ports[0].port, 1);
  EXPECT_EQ(setup->ports[0].pkey, std::nullopt);
  EXPECT_EQ(setup->ports[0].locals,
            (std::vector{name("node7"), mad::AcmAddress::ipv4({10, 0, 0, 7})}));
  EXPECT_EQ(setup->ports[1].pkey, PKey(0x8001));
  EXPECT_EQ(setup->ports[1].locals, std::vector{name("node7-job")});
  EXPECT_EQ(setup->ports[2].port, 2);
}

TEST_F(ServiceSetupTest, OptionsReachTheEngineOfEveryPort) {
  const std::string addresses = write("addresses", "a mlx5_0 1 default\nb mlx5_1 1 default\n");
  const auto setup = read_setup({write("options", "route_prot acm\nmin_rate 40\n"), addresses});
  ASSERT_TRUE(setup) << setup.error().what();
  for (const ServedPort::Options& port : setup->ports) {
    EXPECT_EQ(port.engine.route_protocol, RouteProtocol::Acm);
    EXPECT_EQ(port.engine.min_rate, mad::kRate40);
  }
  // Without the option paths come from the SA, as with ibacm.
  const auto usual = read_setup({write("options", "\n"), addresses});
  ASSERT_TRUE(usual) << usual.error().what();
  EXPECT_EQ(usual->ports.at(0).engine.route_protocol, RouteProtocol::Sa);
}

TEST_F(ServiceSetupTest, WrongLinesAreReportedAndLeftOut) {
  const std::string options = write("options", "timeout soon\n");
  const std::string addresses =
      write("addresses", "node7 mlx5_0 1 default\nnode8 mlx5_0 0 default\n");
  const auto setup = read_setup({options, addresses});
  ASSERT_TRUE(setup) << setup.error().what();
  ASSERT_EQ(setup->problems.size(), 2U);
  EXPECT_NE(setup->problems[0].what().find("options:1: "), std::string::npos)
      << setup->problems[0].what();
  EXPECT_NE(setup->problems[1].what().find("addresses:2: "), std::string::npos)
      << setup->problems[1].what();
  ASSERT_EQ(setup->ports.size(), 1U);
  EXPECT_EQ(setup->ports[0].locals, std::vector{name("node7")});
}

TEST_F(ServiceSetupTest, AFileThatWasNamedMustBeThere) {
  const auto setup = read_setup({directory_.path() + "/none", ""});
  ASSERT_FALSE(setup);
  EXPECT_TRUE(setup.error().is(Errc::NotFound)) << setup.error().what();
  EXPECT_NE(setup.error().what().find("/none"), std::string::npos);
}

TEST(RouteSource, IsTheAddressThatTheKernelWouldUse) {
  EXPECT_EQ(route_source(mad::AcmAddress::ipv4({127, 0, 0, 9})),
            mad::AcmAddress::ipv4({127, 0, 0, 1}));

  EXPECT_EQ(route_source(mad::AcmAddress::ipv4({255, 255, 255, 255})), std::nullopt);
}

}  // namespace
}  // namespace wireup::acm
