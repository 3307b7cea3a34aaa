// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/client_names.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "acm/temporary_directory.hpp"

namespace wireup::acm {
namespace {

class ClientNamesTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<Error> mislead() const { return names_that_mislead(socket_, names_); }
  void write_port_file(const std::string& text) const { std::ofstream(names_.port_file) << text; }
  void link_to(const std::string& target) const {
    unlink(names_.link.c_str());
    ASSERT_EQ(symlink(target.c_str(), names_.link.c_str()), 0);
  }

  test::TemporaryDirectory directory_;
  std::string socket_ = directory_.path() + "/ours.sock";
  ClientNames names_{directory_.path() + "/ibacm.port", directory_.path() + "/ibacm.sock"};
};

TEST_F(ClientNamesTest, NothingThereMisleadsNobody) {
  EXPECT_TRUE(mislead().empty());
}

TEST_F(ClientNamesTest, AFileWithATcpPort) {
  write_port_file("6125\n");
  const auto found = mislead();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found.front().what().find("/ibacm.port has the TCP port 6125"), std::string_view::npos);
  EXPECT_NE(found.front().what().find("Remove the file"), std::string_view::npos);
}

TEST_F(ClientNamesTest, FilesFromWhichLibrdmacmTakesNoPort) {
  for (const char* text : {"", "0\n", "none\n", "65536\n"}) {
    write_port_file(text);
    EXPECT_TRUE(mislead().empty()) << text;
  }
}

TEST_F(ClientNamesTest, ALinkThatLeadsElsewhere) {
  const auto listener = listen_client_socket(socket_, 0600, {});
  ASSERT_TRUE(listener.has_value());
  EXPECT_EQ(listener->path(), socket_);
  link_to("ours.sock");
  EXPECT_TRUE(mislead().empty()) << "it is this socket";
  link_to("other.sock");
  const auto found = mislead();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found.front().what().find("/ibacm.sock leads to other.sock"), std::string_view::npos)
      << found.front().what();
}

}  // namespace
}  // namespace wireup::acm
